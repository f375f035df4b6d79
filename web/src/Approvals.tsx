import { useState } from "react";

export interface Interrupt {
  id?: string;
  value: unknown;
}

interface ActionRequest {
  name: string;
  args: Record<string, unknown>;
  description?: string;
}

type Decision =
  | { type: "approve" }
  | { type: "edit"; edited_action: { name: string; args: unknown } }
  | { type: "reject"; message?: string };

interface Props {
  interrupts: Interrupt[];
  /** Called once, with the answers to all of them, as a run's `resume` takes them. */
  onAnswer: (resume: unknown) => void;
}

export function Approvals({ interrupts, onAnswer }: Props) {
  const [answers, setAnswers] = useState<Record<number, unknown>>({});
  const answer = (index: number, value: unknown) => {
    const given = { ...answers, [index]: value };
    setAnswers(given);
    if (Object.keys(given).length < interrupts.length) return;
    if (interrupts.length === 1) onAnswer(given[0]);
    else onAnswer(Object.fromEntries(interrupts.map((one, position) => [one.id, given[position]])));
  };
  return (
    <section className="approvals" aria-label="Approvals">
      {interrupts.map((one, index) =>
        index in answers ? null : (
          <Question key={one.id ?? index} value={one.value} onAnswer={(value) => answer(index, value)} />
        ),
      )}
    </section>
  );
}

function Question({ value, onAnswer }: { value: unknown; onAnswer: (answer: unknown) => void }) {
  const [decisions, setDecisions] = useState<Record<number, Decision>>({});
  const requests = (value as { action_requests?: ActionRequest[] } | null)?.action_requests;
  if (!Array.isArray(requests)) return <OpenQuestion value={value} onAnswer={onAnswer} />;
  const decide = (index: number, decision: Decision) => {
    const made = { ...decisions, [index]: decision };
    setDecisions(made);
    if (Object.keys(made).length === requests.length) {
      onAnswer({ decisions: requests.map((_, position) => made[position]) });
    }
  };
  return requests.map((request, index) =>
    index in decisions ? (
      <p key={`${index} ${request.name}`} className="decided">
        {request.name}: {decisions[index]?.type}
      </p>
    ) : (
      <Action key={`${index} ${request.name}`} request={request} onDecide={(decision) => decide(index, decision)} />
    ),
  );
}

function Action({ request, onDecide }: { request: ActionRequest; onDecide: (decision: Decision) => void }) {
  const [mode, setMode] = useState<"ask" | "edit" | "reject">("ask");
  const [wasBack, setWasBack] = useState(false);
  const [text, setText] = useState(() => JSON.stringify(request.args, null, 2));
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState("");

  const sendEdit = () => {
    try {
      const args = JSON.parse(text);
      if (typeof args !== "object" || args === null || Array.isArray(args)) throw new Error("a JSON object is needed");
      onDecide({ type: "edit", edited_action: { name: request.name, args } });
    } catch (error) {
      setProblem(`These are no arguments: ${(error as Error).message}`);
    }
  };

  return (
    <div className="approval" role="group" aria-label={`Approval of ${request.name}`}>
      <p>
        The agent wants to use <code>{request.name}</code>.
      </p>
      {mode === "edit" ? (
        <label>
          Arguments
          <textarea className="code" rows={6} value={text} autoFocus onChange={(event) => setText(event.target.value)} />
        </label>
      ) : (
        <pre>{JSON.stringify(request.args, null, 2)}</pre>
      )}
      {mode === "reject" && (
        <label>
          What should it know? (optional)
          <input value={reason} autoFocus onChange={(event) => setReason(event.target.value)} />
        </label>
      )}
      <p role="alert" className="error" hidden={!problem}>
        {problem}
      </p>
      <div className="buttons">
        {mode === "ask" && (
          <>
            <button type="button" className="primary" autoFocus={wasBack} onClick={() => onDecide({ type: "approve" })}>
              Approve
            </button>
            <button type="button" onClick={() => setMode("edit")}>
              Edit
            </button>
            <button type="button" onClick={() => setMode("reject")}>
              Reject
            </button>
          </>
        )}
        {mode === "edit" && (
          <button type="button" className="primary" onClick={sendEdit}>
            Approve the edited call
          </button>
        )}
        {mode === "reject" && (
          <button
            type="button"
            className="primary"
            onClick={() => onDecide(reason ? { type: "reject", message: reason } : { type: "reject" })}
          >
            Reject the call
          </button>
        )}
        {mode !== "ask" && (
          <button type="button" onClick={() => (setWasBack(true), setMode("ask"))}>
            Back
          </button>
        )}
      </div>
    </div>
  );
}

function OpenQuestion({ value, onAnswer }: { value: unknown; onAnswer: (answer: string) => void }) {
  const [text, setText] = useState("");
  return (
    <form
      className="approval"
      aria-label="Question of the agent"
      onSubmit={(event) => {
        event.preventDefault();
        onAnswer(text);
      }}
    >
      <pre>{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre>
      <label>
        Your answer
        <input value={text} required onChange={(event) => setText(event.target.value)} />
      </label>
      <button type="submit" className="primary">
        Answer
      </button>
    </form>
  );
}
