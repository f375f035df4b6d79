import type { Thread } from "@langchain/langgraph-sdk";
import { useEffect, useState } from "react";
import { client, errorText } from "./server";

const PAGE = 50;

interface Props {
  current: string | null;
  /** Counts what happened to threads: another number means that the list is old. */
  changes: number;
  onChoose: (threadId: string | null) => void;
  /** Told the title of the current one, once it is known. */
  onTitle: (title: string) => void;
}

export function Threads({ current, changes, onChoose, onTitle }: Props) {
  const [threads, setThreads] = useState<Thread[]>([]);
  const [limit, setLimit] = useState(PAGE);
  const [query, setQuery] = useState("");
  const [error, setError] = useState("");

  useEffect(() => {
    let isCurrent = true;
    client.threads
      .search({
        limit,
        sortBy: "updated_at",
        sortOrder: "desc",
        select: ["thread_id", "metadata", "status", "updated_at"],
      })
      .then(
        (found) => isCurrent && (setThreads(found), setError("")),
        (problem) => isCurrent && setError(errorText(problem)),
      );
    return () => {
      isCurrent = false;
    };
  }, [limit, changes]);

  const open = threads.find((thread) => thread.thread_id === current);
  const title = open ? titleOf(open) : "";
  useEffect(() => onTitle(title), [title, onTitle]);

  const wanted = query.trim().toLowerCase();
  const shown = threads.filter((thread) => titleOf(thread).toLowerCase().includes(wanted));

  return (
    <>
      <button type="button" className="new" onClick={() => onChoose(null)}>
        New conversation
      </button>
      <label className="search">
        <span className="hidden">Search conversations</span>
        <input type="search" placeholder="Search" value={query} onChange={(event) => setQuery(event.target.value)} />
      </label>
      <p role="alert" className="error" hidden={!error}>
        {error}
      </p>
      <nav aria-label="Conversations">
        <ul>
          {shown.map((thread) => (
            <li key={thread.thread_id}>
              <a
                href={`#/threads/${thread.thread_id}`}
                aria-current={thread.thread_id === current ? "page" : undefined}
                onClick={(event) => {
                  if (event.metaKey || event.ctrlKey) return;
                  event.preventDefault();
                  onChoose(thread.thread_id);
                }}
              >
                <span className="title">{titleOf(thread)}</span>
                {MARKS[thread.status] && <span className={`mark ${thread.status}`}>{MARKS[thread.status]}</span>}
              </a>
            </li>
          ))}
        </ul>
        {shown.length === 0 && !error && (
          <p className="empty">{wanted ? "No title contains this." : "Nothing here yet."}</p>
        )}
        {threads.length === limit && (
          <button type="button" className="quiet" onClick={() => setLimit(limit + PAGE)}>
            Show older ones
          </button>
        )}
      </nav>
    </>
  );
}

const MARKS: Record<string, string> = { busy: "working", interrupted: "waits for you", error: "failed" };

function titleOf(thread: Thread): string {
  const title = thread.metadata?.title;
  return typeof title === "string" && title ? title : "Untitled";
}
