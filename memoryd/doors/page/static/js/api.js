// The daemon, as the page sees it: the login, calls by the names that the command line uses, and the
// stream of events.

const TOKEN = "memoryd.token";

export class CallError extends Error {
  constructor(error, status) {
    super(error?.message ?? "");
    this.code = error?.code ?? "unreachable";
    this.hint = error?.hint ?? "";
    this.status = status;
  }
}

let onLoggedOut = () => {};
export const whenLoggedOut = (react) => { onLoggedOut = react; };

// Logs in with the ticket of a one-time link, which then leaves the address. Returns whether this
// browser is logged in now.
export async function logIn() {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (ticket) {
    history.replaceState(null, "", location.pathname + location.search);
    try {
      const { token } = await (await send("login", { ticket })).json();
      localStorage.setItem(TOKEN, token);
    } catch (error) {
      if (!localStorage.getItem(TOKEN)) throw error;
    }
  }
  return Boolean(localStorage.getItem(TOKEN));
}

export async function logOut() {
  await send("logout", {}).catch(() => {});
  localStorage.removeItem(TOKEN);
  onLoggedOut();
}

// The answer of a tool or of an owner's operation. `signal` gives a call up; `last` lets it finish
// although the page is being left.
export async function call(tool, args = {}, { signal, last = false } = {}) {
  const { answer, error } = await (await send("call", { tool, arguments: args }, signal, last)).json();
  if (error) throw new CallError(error, 200);
  return answer;
}

// The bytes of a stored map.
export async function mapPoints(revision) {
  const answer = await send("map", { revision });
  if (answer.headers.get("Content-Type") === "application/octet-stream") return answer.arrayBuffer();
  throw new CallError((await answer.json()).error, 200);
}

async function send(path, body, signal, keepalive = false) {
  let answer;
  try {
    answer = await fetch(`/page/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Memoryd-Page-Token": localStorage.getItem(TOKEN) ?? "" },
      body: JSON.stringify(body),
      signal,
      keepalive,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new CallError(null, 0);
  }
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({}));
  if (answer.status === 401 && path !== "login") {
    localStorage.removeItem(TOKEN);
    onLoggedOut();
  }
  throw new CallError(error, answer.status);
}

// Server-sent events, by fetch because EventSource cannot send the token. Calls `react(event, data)`
// for each, and comes back by itself after a break. Returns a function that ends it.
export function listen(react) {
  const ending = new AbortController();
  (async () => {
    for (let wait = 500; !ending.signal.aborted; wait = Math.min(wait * 2, 15000)) {
      try {
        const answer = await send("events", {}, ending.signal);
        wait = 500;
        react("connected", null);
        for await (const [event, data] of eventsOf(answer.body)) react(event, data);
      } catch (error) {
        if (ending.signal.aborted || error.status === 401) return;
      }
      react("disconnected", null);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  })();
  return () => ending.abort();
}

async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: ?(.*)/s, 2)));
      if (fields.event && fields.data) yield [fields.event, JSON.parse(fields.data)];
    }
  }
}
