import { useCallback, useEffect, useState } from "react";
import { Conversation } from "./Conversation";
import { Login } from "./Login";
import { HAS_USERS, hasSession, request, signedOut } from "./server";
import { Threads } from "./Threads";
import { useThreadInAddress } from "./address";

export function App() {
  const [isSignedIn, setSignedIn] = useState(!HAS_USERS || hasSession());
  useEffect(() => {
    const leave = () => setSignedIn(!HAS_USERS);
    signedOut.addEventListener("signedout", leave);
    return () => signedOut.removeEventListener("signedout", leave);
  }, []);
  return isSignedIn ? <Desk onSignOut={() => setSignedIn(false)} /> : <Login onSignIn={() => setSignedIn(true)} />;
}

function Desk({ onSignOut }: { onSignOut: () => void }) {
  const [threadId, showThread] = useThreadInAddress();
  const [isListOpen, setListOpen] = useState(false);
  const [changes, setChanges] = useState(0);
  const [generation, setGeneration] = useState(0);
  const [title, setTitle] = useState("");
  const noteChange = useCallback(() => setChanges((count) => count + 1), []);
  const startOver = useCallback(() => setGeneration((count) => count + 1), []);

  useEffect(() => {
    document.title = threadId !== null && title ? `${title} · deerflow` : "deerflow";
  }, [threadId, title]);

  const choose = (id: string | null) => {
    showThread(id);
    setListOpen(false);
    document.getElementById("message")?.focus();
  };
  const signOut = async () => {
    await request("POST", "/auth/logout").catch(() => undefined);
    showThread(null);
    onSignOut();
  };

  return (
    <div className={isListOpen ? "desk list-open" : "desk"}>
      <a className="skip" href="#message" onClick={(event) => focusMessage(event)}>
        Skip to the message box
      </a>
      <aside id="threads" aria-label="Conversations">
        <Threads current={threadId} changes={changes} onChoose={choose} onTitle={setTitle} />
        {HAS_USERS && <Account onSignOut={signOut} />}
      </aside>
      <button
        type="button"
        className="list-toggle"
        aria-expanded={isListOpen}
        aria-controls="threads"
        onClick={() => setListOpen(!isListOpen)}
      >
        {isListOpen ? "Close" : "Conversations"}
      </button>
      <Conversation
        key={generation}
        threadId={threadId}
        title={title}
        onThread={showThread}
        onChange={noteChange}
        onReconnected={startOver}
      />
    </div>
  );
}

function Account({ onSignOut }: { onSignOut: () => void }) {
  const [name, setName] = useState("");
  useEffect(() => {
    request("GET", "/auth/me")
      .then((response) => response.json())
      .then((me) => setName(me.username))
      .catch(() => undefined);
  }, []);
  return (
    <div className="account">
      <span>{name}</span>
      <button type="button" className="quiet" onClick={onSignOut}>
        Sign out
      </button>
    </div>
  );
}

function focusMessage(event: React.MouseEvent) {
  event.preventDefault(); // the address's fragment names the conversation
  document.getElementById("message")?.focus();
}
