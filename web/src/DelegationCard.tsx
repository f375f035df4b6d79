import type { Delegation } from "./delegations";
import { Prose, textOf, type ToolResult } from "./Prose";

interface Props {
  args: unknown;
  live: Delegation | undefined;
  result: ToolResult | undefined;
  isLoading: boolean;
}

const WORDS = {
  waiting: "waiting",
  running: "working",
  completed: "done",
  failed: "failed",
  cancelled: "stopped",
  timed_out: "took too long",
};

export function DelegationCard({ args, live, result, isLoading }: Props) {
  const asked = (args ?? {}) as { prompt?: string; subagent_type?: string; description?: string };
  const status = statusOf(live, result, isLoading);
  const steps = live?.steps ?? [];
  return (
    <li className={`card ${status}`}>
      <p className="card-head">
        <span className="title">{asked.description || asked.prompt || "Delegation"}</span>
        <span className="status">{WORDS[status]}</span>
      </p>
      <p className="kind">{live?.subagentType || asked.subagent_type}</p>
      {status === "running" && steps.length > 0 && <p className="latest">{steps[steps.length - 1]?.replace(/^\d+\. /, "")}</p>}
      {live?.error && <p className="error">{live.error}</p>}
      {steps.length > 0 && (
        <details>
          <summary>{steps.length === 1 ? "1 step" : `${steps.length} steps`}</summary>
          <ol>
            {steps.map((step) => (
              <li key={step}>{step.replace(/^\d+\. /, "")}</li>
            ))}
          </ol>
        </details>
      )}
      {result && (
        <details>
          <summary>Result</summary>
          <Prose text={textOf(result)} />
        </details>
      )}
    </li>
  );
}

function statusOf(live: Delegation | undefined, result: ToolResult | undefined, isLoading: boolean): keyof typeof WORDS {
  if (result) {
    const told = result.additional_kwargs?.subagent_status;
    if (typeof told === "string" && told in WORDS) return told as keyof typeof WORDS;
    return result.status === "error" ? "failed" : "completed";
  }
  if (live && live.status !== "running") return live.status;
  if (!isLoading) return "cancelled";
  return live ? "running" : "waiting";
}
