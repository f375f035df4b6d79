import type { Message } from "@langchain/langgraph-sdk";
import { useEffect, useLayoutEffect, useRef } from "react";
import { DelegationCard } from "./DelegationCard";
import type { Delegations } from "./delegations";
import { Prose, textOf, type ToolResult } from "./Prose";

interface Props {
  messages: Message[];
  delegations: Delegations;
  isLoading: boolean;
  isFetching: boolean;
  hasProblem: boolean;
}

type ToolCall = { id?: string; name: string; args: unknown };

const NEAR_THE_END_PIXELS = 120;

export function Messages({ messages, delegations, isLoading, isFetching, hasProblem }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const results = new Map(
    messages.flatMap((message) => (message.type === "tool" ? [[message.tool_call_id, message] as const] : [])),
  );

  useLayoutEffect(() => {
    if (isAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  });
  useEffect(() => {
    const scrolled = box.current;
    const look = () => {
      if (scrolled) isAtEnd.current = scrolled.scrollHeight - scrolled.scrollTop - scrolled.clientHeight < NEAR_THE_END_PIXELS;
    };
    scrolled?.addEventListener("scroll", look, { passive: true });
    const resized = new ResizeObserver(() => {
      if (scrolled && isAtEnd.current) scrolled.scrollTop = scrolled.scrollHeight;
    });
    if (scrolled) resized.observe(scrolled);
    return () => {
      scrolled?.removeEventListener("scroll", look);
      resized.disconnect();
    };
  }, []);

  return (
    <div className="messages" ref={box} role="log" aria-label="Messages" aria-busy={isLoading} tabIndex={0}>
      <div className="column">
        {messages.length === 0 && !isLoading && !hasProblem && (
          <p className="empty">{isFetching ? "Loading…" : "Ask something, or hand over a piece of work."}</p>
        )}
        {messages.map((message, index) => (
          <MessageView
            key={message.id ?? index}
            message={message}
            results={results}
            delegations={delegations}
            isLoading={isLoading}
          />
        ))}
        {isLoading && <p className="working">Working…</p>}
      </div>
    </div>
  );
}

interface MessageProps extends Pick<Props, "delegations" | "isLoading"> {
  message: Message;
  results: Map<string, ToolResult>;
}

function MessageView({ message, results, delegations, isLoading }: MessageProps) {
  const text = textOf(message);
  if (message.type === "human") {
    return (
      <article className="human" aria-label="You">
        <p>{text}</p>
      </article>
    );
  }
  if (message.type !== "ai") return null;
  const calls = (message.tool_calls ?? []) as ToolCall[];
  const delegated = calls.filter((call) => call.name === "task");
  if (!text && calls.length === 0) return null;
  return (
    <article className="ai" aria-label="Agent">
      {text && <Prose text={text} />}
      {delegated.length > 0 && (
        <ul className="cards" aria-label="Delegations">
          {delegated.map((call, index) => (
            <DelegationCard
              key={call.id ?? index}
              args={call.args}
              live={delegations[call.id ?? ""]}
              result={results.get(call.id ?? "")}
              isLoading={isLoading}
            />
          ))}
        </ul>
      )}
      {calls
        .filter((call) => call.name !== "task")
        .map((call, index) => (
          <ToolCallView key={call.id ?? index} call={call} result={results.get(call.id ?? "")} />
        ))}
    </article>
  );
}

function ToolCallView({ call, result }: { call: ToolCall; result: ToolResult | undefined }) {
  const outcome = result === undefined ? "" : result.status === "error" ? "failed" : "done";
  return (
    <details className={`tool ${outcome}`}>
      <summary>
        <code>{call.name}</code> <span className="outcome">{outcome}</span>
      </summary>
      <pre>{JSON.stringify(call.args, null, 2)}</pre>
      {result && <pre>{textOf(result)}</pre>}
    </details>
  );
}
