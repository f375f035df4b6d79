import { type FormEvent, useState } from "react";
import { errorText, request } from "./server";

export function Login({ onSignIn }: { onSignIn: () => void }) {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);

  const signIn = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    setBusy(true);
    setError("");
    try {
      const body = JSON.stringify({ username: form.get("username"), password: form.get("password") });
      await request("POST", "/auth/login", body, { "Content-Type": "application/json" });
      onSignIn();
    } catch (problem) {
      setError(errorText(problem));
      setBusy(false);
    }
  };

  return (
    <main className="login">
      <form onSubmit={signIn} aria-describedby="login-error">
        <h1>Sign in</h1>
        <label>
          Name
          <input name="username" autoComplete="username" required autoFocus autoCapitalize="none" />
        </label>
        <label>
          Password
          <input name="password" type="password" autoComplete="current-password" required />
        </label>
        <p id="login-error" role="alert" className="error" hidden={!error}>
          {error}
        </p>
        <button type="submit" className="primary" disabled={isBusy}>
          {isBusy ? "Signing in…" : "Sign in"}
        </button>
      </form>
    </main>
  );
}
