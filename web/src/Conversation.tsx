import type { Message } from "@langchain/langgraph-sdk";
import { useStream } from "@langchain/langgraph-sdk/react";
import { useEffect, useRef, useState } from "react";
import { Approvals, type Interrupt } from "./Approvals";
import { Composer, toolsToApprove } from "./Composer";
import { type Delegations, withProgress } from "./delegations";
import { Files } from "./Files";
import { Messages } from "./Messages";
import { useReach } from "./reach";
import { ASSISTANT, client, errorText, isLostConnection } from "./server";

interface Props {
  threadId: string | null;
  title: string;
  onThread: (threadId: string | null) => void;
  /** Something happened that lists of threads show. */
  onChange: () => void;
  /** The server is back and nobody follows the run any more: begin anew from what it knows. */
  onReconnected: () => void;
}

type State = { messages: Message[] };

export function Conversation({ threadId, title, onThread, onChange, onReconnected }: Props) {
  const [delegations, setDelegations] = useState<Delegations>({});
  const [runId, setRunId] = useState<string | null>(null);
  const [failure, setFailure] = useState("");
  const [notice, setNotice] = useState("");
  const [areFilesOpen, setFilesOpen] = useState(false);
  const [filesChanges, setFilesChanges] = useState(0);
  const madeHere = useRef<string | null>(null);
  const wasLoading = useRef(false);
  const wasStopped = useRef(false);

  const reach = useReach(() => !stream.isLoading && onReconnected());
  const stream = useStream<State, { InterruptType: unknown }>({
    client,
    assistantId: ASSISTANT,
    threadId,
    onThreadId: (id) => {
      madeHere.current = id;
      onThread(id);
    },
    fetchStateHistory: false,
    throttle: 40,
    onCreated: (run) => {
      setRunId(run.run_id);
      onChange();
    },
    onCustomEvent: (event) => setDelegations((known) => withProgress(known, event)),
    onError: (error) => isLostConnection(error) && reach.noteLoss(),
  });

  // Another thread was chosen, or this page was loaded: its newest run may be under way, or have failed.
  useEffect(() => {
    if (threadId !== null && threadId === madeHere.current) return;
    madeHere.current = null;
    setDelegations({});
    setFailure("");
    setNotice("");
    setRunId(null);
    if (threadId === null) return;
    let isCurrent = true;
    const follow = async () => {
      const [run] = await client.runs.list(threadId, { limit: 1 });
      if (!isCurrent || run === undefined) return;
      if (run.status === "pending" || run.status === "running") {
        setRunId(run.run_id);
        await stream.joinStream(run.run_id, "-1");
      } else if (run.status === "error") {
        setFailure((run as { error?: string | null }).error ?? "The last run failed.");
      }
    };
    follow().catch(() => undefined); // reading the thread's state says what is wrong with it
    return () => {
      isCurrent = false;
    };
  }, [threadId]);

  useEffect(() => {
    if (wasLoading.current && !stream.isLoading) {
      setRunId(null);
      setNotice(wasStopped.current ? "Stopped." : stream.error ? "" : "The answer is complete.");
      setFilesChanges((count) => count + 1);
      onChange();
      if (reach.takeMissed()) onReconnected();
    } else if (!wasLoading.current && stream.isLoading) {
      wasStopped.current = false;
      setNotice("Working.");
    }
    wasLoading.current = stream.isLoading;
  }, [stream.isLoading]);

  const context = () => ({ approve_tools: toolsToApprove() });
  const options = { onDisconnect: "continue", streamResumable: true, multitaskStrategy: "enqueue" } as const;
  const send = (text: string) => {
    setFailure("");
    const message: Message = { id: randomId(), type: "human", content: text };
    void stream.submit(
      { messages: [message] },
      {
        ...options,
        context: context(),
        optimisticValues: (known) => ({ ...known, messages: [...(known.messages ?? []), message] }),
      },
    );
  };
  const resume = (answer: unknown) => {
    setFailure("");
    focusMessage(); // what was focused is about to go
    void stream.submit(undefined, { ...options, context: context(), command: { resume: answer } });
  };
  const stop = async () => {
    if (threadId === null || runId === null) return;
    wasStopped.current = true;
    focusMessage();
    await client.runs.cancel(threadId, runId).catch((error) => setFailure(errorText(error)));
  };
  const remove = async () => {
    if (threadId === null || !confirm("Delete this conversation with its files?")) return;
    try {
      await client.threads.delete(threadId);
      onThread(null);
      onChange();
    } catch (error) {
      setFailure(errorText(error));
    }
  };

  const closeFiles = () => {
    setFilesOpen(false);
    document.getElementById("files-toggle")?.focus();
  };

  const interrupts = (stream.isLoading ? [] : stream.interrupts).filter((one) => one.value !== undefined) as Interrupt[];
  const isLost = reach.isLost;
  const problem = isLost || isLostConnection(stream.error) ? failure : failure || (stream.error ? errorText(stream.error) : "");

  return (
    <main className={areFilesOpen ? "conversation files-open" : "conversation"}>
      <header>
        <h1>{threadId === null ? "New conversation" : title || "Conversation"}</h1>
        {threadId !== null && (
          <div className="actions">
            <button
              type="button"
              className="quiet"
              aria-expanded={areFilesOpen}
              aria-controls="files"
              id="files-toggle"
              onClick={() => setFilesOpen(!areFilesOpen)}
            >
              Files
            </button>
            <button type="button" className="quiet" onClick={remove} disabled={stream.isLoading}>
              Delete
            </button>
          </div>
        )}
      </header>
      <Messages
        messages={stream.messages}
        delegations={delegations}
        isLoading={stream.isLoading}
        isFetching={stream.isThreadLoading}
        hasProblem={problem !== ""}
      />
      <div className="foot">
        <p role="status" className={isLost ? "lost" : "hidden"}>
          {isLost ? "The server does not answer. Trying again…" : interrupts.length ? "Your approval is needed." : notice}
        </p>
        <p role="alert" className="error" hidden={!problem}>
          {problem}
        </p>
        {interrupts.length > 0 && <Approvals key={interrupts[0]?.id} interrupts={interrupts} onAnswer={resume} />}
        <Composer
          isRunning={stream.isLoading}
          canStop={runId !== null && !isLost}
          isWaiting={interrupts.length > 0}
          onSend={send}
          onStop={stop}
        />
      </div>
      {threadId !== null && areFilesOpen && (
        <Files threadId={threadId} changes={filesChanges} onClose={closeFiles} />
      )}
    </main>
  );
}

function focusMessage() {
  document.getElementById("message")?.focus();
}

/** A UUID, also where the page came over plain HTTP and `crypto.randomUUID` is missing. */
function randomId(): string {
  const hex = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
}
