/** What is known of one subagent's work: from its progress events while it runs. */
export interface Delegation {
  status: "running" | "completed" | "failed" | "cancelled" | "timed_out";
  subagentType: string;
  description: string;
  steps: string[];
  error: string;
}

/** By tool-call id, as the message that delegates has it. */
export type Delegations = Readonly<Record<string, Delegation>>;

interface ProgressEvent {
  type: string;
  task_id: string;
  subagent_type?: string;
  description?: string;
  step?: number;
  text?: string;
  tool?: string;
  tools?: string[];
  error?: string;
}

const MAX_STEPS = 200;

/** What is known after one more event; events of other kinds change nothing, repeated ones neither. */
export function withProgress(known: Delegations, event: unknown): Delegations {
  if (!isProgress(event)) return known;
  const before = known[event.task_id] ?? {
    status: "running",
    subagentType: event.subagent_type ?? "",
    description: "",
    steps: [],
    error: "",
  };
  const after = { ...before };
  if (event.type === "task_started") {
    after.status = "running";
    after.description = event.description ?? "";
  } else if (event.type === "task_running") {
    const step = stepText(event);
    if (step && !before.steps.includes(step)) after.steps = [...before.steps, step].slice(-MAX_STEPS);
  } else {
    after.status = event.type.slice("task_".length) as Delegation["status"];
    after.error = event.error ?? "";
  }
  return { ...known, [event.task_id]: after };
}

export function isProgress(event: unknown): event is ProgressEvent {
  if (typeof event !== "object" || event === null) return false;
  const { type, task_id } = event as Partial<ProgressEvent>;
  return (
    typeof task_id === "string" &&
    typeof type === "string" &&
    /^task_(started|running|completed|failed|cancelled|timed_out)$/.test(type)
  );
}

function stepText(event: ProgressEvent): string {
  const number = event.step === undefined ? "" : `${event.step}. `;
  if (event.tool) return `${number}${event.tool}: ${event.text ?? ""}`;
  if (event.tools?.length) return `${number}calls ${event.tools.join(", ")}`;
  return event.text ? `${number}${event.text}` : "";
}
