// Figures of the daemon over time: an hour in steps of 10 seconds, a day in steps of 5 minutes. New
// ones come as events; while there is no stream of events they are fetched.

import { useState } from "../../vendor/preact-htm.js";
import { useCall, useEvents } from "./state.js";

const MOST = 360;
const FETCH_LIVE = 300_000; // milliseconds: the long ring comes by fetching only
const FETCH_ALONE = 10_000;

export function useSamples() {
  const [isLive, setLive] = useState(true);
  const [arrived, setArrived] = useState([]);
  const fetched = useCall("samples", {}, { every: isLive ? FETCH_LIVE : FETCH_ALONE });
  useEvents((event, data) => {
    if (event === "sample") setArrived((before) => [...before, data].slice(-MOST));
    if (event === "disconnected") setLive(false);
    if (event === "connected") {
      setLive(true);
      fetched.reload();
    }
  });
  const rings = fetched.answer;
  const last = rings?.short.samples.at(-1)?.at ?? 0;
  const short = [...(rings?.short.samples ?? []), ...arrived.filter((one) => one.at > last)].slice(-MOST);
  return { ...fetched, isLive, short, long: rings?.long.samples ?? [], now: Math.max(rings?.now ?? 0, short.at(-1)?.at ?? 0) };
}
