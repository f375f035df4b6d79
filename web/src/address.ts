import { useCallback, useSyncExternalStore } from "react";

const THREAD = /^#\/threads\/([0-9a-f-]{36})$/;

/** The thread that the page's address names, so that reloading, links and the back button find it. */
export function useThreadInAddress(): [string | null, (threadId: string | null) => void] {
  const hash = useSyncExternalStore(subscribe, () => location.hash);
  const show = useCallback((threadId: string | null) => {
    location.hash = threadId === null ? "#/" : `#/threads/${threadId}`;
  }, []);
  return [THREAD.exec(hash)?.[1] ?? null, show];
}

function subscribe(listener: () => void): () => void {
  addEventListener("hashchange", listener);
  return () => removeEventListener("hashchange", listener);
}
