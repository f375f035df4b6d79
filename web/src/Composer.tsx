import { type FormEvent, type KeyboardEvent, useState } from "react";

const ASK_FIRST = "deerflow.ask-before-changes";
const CHANGING_TOOLS = ["write_file", "edit_file"];

/** The tools whose calls wait for the person, as the person chose on this machine. */
export function toolsToApprove(): string[] {
  return localStorage.getItem(ASK_FIRST) === "yes" ? CHANGING_TOOLS : [];
}

interface Props {
  isRunning: boolean;
  canStop: boolean;
  isWaiting: boolean;
  onSend: (text: string) => void;
  onStop: () => void;
}

export function Composer({ isRunning, canStop, isWaiting, onSend, onStop }: Props) {
  const [text, setText] = useState("");
  const [asksFirst, setAsksFirst] = useState(toolsToApprove().length > 0);
  const canSend = !isRunning && !isWaiting && text.trim() !== "";

  const send = (event: FormEvent | KeyboardEvent) => {
    event.preventDefault();
    if (!canSend) return;
    onSend(text);
    setText("");
  };
  const choose = (isChosen: boolean) => {
    setAsksFirst(isChosen);
    localStorage.setItem(ASK_FIRST, isChosen ? "yes" : "no");
  };

  return (
    <form className="composer" onSubmit={send}>
      <label htmlFor="message" className="hidden">
        Message
      </label>
      <textarea
        id="message"
        rows={2}
        placeholder={isWaiting ? "Decide above first" : "Message"}
        aria-describedby="message-keys"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) send(event);
        }}
      />
      {isRunning ? (
        <button type="button" className="stop" onClick={onStop} disabled={!canStop}>
          Stop
        </button>
      ) : (
        <button type="submit" className="primary" disabled={!canSend}>
          Send
        </button>
      )}
      <div className="below">
        <label className="choice">
          <input type="checkbox" checked={asksFirst} onChange={(event) => choose(event.target.checked)} />
          Ask me before files are changed
        </label>
        <span id="message-keys">Enter sends, Shift+Enter begins a line</span>
      </div>
    </form>
  );
}
