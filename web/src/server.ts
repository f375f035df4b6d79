import { Client } from "@langchain/langgraph-sdk";

/** The Gateway that served this page, also where it stands below a prefix. */
const BASE = new URL("..", document.baseURI).href.replace(/\/$/, "");

export const ASSISTANT = "lead_agent";
export const HAS_USERS = document.documentElement.dataset.auth === "users";

/** Told whenever the server stops or starts answering. */
type ReachListener = (isReachable: boolean) => void;
const reachListeners = new Set<ReachListener>();
/** Told when the server no longer knows who is calling. */
export const signedOut = new EventTarget();

export function onReach(listener: ReachListener): () => void {
  reachListeners.add(listener);
  return () => reachListeners.delete(listener);
}

export class RefusedError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** Told when a broken stream goes on, at an event that this page names. */
export const streamsRejoined = new EventTarget();

const watchedFetch: typeof fetch = async (input, init) => {
  try {
    const response = await fetch(input, init);
    const after = new Headers(init?.headers).get("last-event-id");
    if (after !== null && after !== "-1") streamsRejoined.dispatchEvent(new Event("rejoined"));
    reachListeners.forEach((listener) => listener(true));
    if (response.status === 401) signedOut.dispatchEvent(new Event("signedout"));
    return response;
  } catch (error) {
    if (!(error instanceof DOMException)) reachListeners.forEach((listener) => listener(false));
    throw error;
  }
};

export const client = new Client({
  apiUrl: BASE,
  apiKey: null,
  callerOptions: { fetch: watchedFetch, maxRetries: 1 },
  onRequest: (_url, init) => ({ ...init, headers: { ...plainHeaders(init.headers), ...csrfHeader() } }),
});

/** A request to a route that the LangGraph client does not know; refused ones throw what the server says. */
export async function request(method: string, path: string, body?: BodyInit, headers = {}): Promise<Response> {
  const response = await watchedFetch(`${BASE}${path}`, { method, body, headers: { ...headers, ...csrfHeader() } });
  if (!response.ok) throw new RefusedError(await detailOf(response), response.status);
  return response;
}

export async function isUp(): Promise<boolean> {
  return (await watchedFetch(`${BASE}/health/ready`).catch(() => null))?.ok ?? false;
}

export function fileUrl(threadId: string, path: string): string {
  return `${BASE}${filePath(threadId, path)}`;
}

export function filePath(threadId: string, path: string): string {
  return `/threads/${threadId}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** Whether this browser has a session, as far as a page can see. */
export function hasSession(): boolean {
  return csrfToken() !== undefined;
}

/** What went wrong, in the server's own words wherever it said something. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return typeof error === "string" ? error : JSON.stringify(error);
  const body = /^HTTP \d+: (.*)$/s.exec(error.message)?.[1] ?? error.message;
  try {
    const detail = JSON.parse(body)?.detail;
    return typeof detail === "string" ? detail : body;
  } catch {
    return body;
  }
}

export function isLostConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error instanceof TypeError || ["ConnectionError", "MaxReconnectAttemptsError"].includes(error.name);
}

async function detailOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return JSON.parse(text).detail ?? text;
  } catch {
    return text || response.statusText;
  }
}

function csrfToken(): string | undefined {
  return document.cookie
    .split("; ")
    .find((cookie) => cookie.startsWith("csrf_token="))
    ?.slice("csrf_token=".length);
}

function csrfHeader(): Record<string, string> {
  const token = csrfToken();
  return token === undefined ? {} : { "X-CSRF-Token": token };
}

function plainHeaders(headers: HeadersInit | undefined): Record<string, string> {
  return Object.fromEntries(new Headers(headers).entries());
}
