import { useEffect, useRef, useState } from "react";
import { isUp, onReach, streamsRejoined } from "./server";

const ASK_AGAIN_MS = 1500;

interface Reach {
  isLost: boolean;
  /** To be called where a connection broke that nobody takes up again. */
  noteLoss: () => void;
  /** Whether events may have been missed since this was last asked. */
  takeMissed: () => boolean;
}

/** Whether the server answers. While it does not it is asked again and again; then `onBack` is called. */
export function useReach(onBack: () => void): Reach {
  const [isLost, setLost] = useState(false);
  const missed = useRef(false);
  const back = useRef(onBack);
  back.current = onBack;

  useEffect(() => onReach((isReachable) => !isReachable && setLost(true)), []);
  useEffect(() => {
    const rejoin = () => {
      missed.current = true;
    };
    streamsRejoined.addEventListener("rejoined", rejoin);
    return () => streamsRejoined.removeEventListener("rejoined", rejoin);
  }, []);
  useEffect(() => {
    if (!isLost) return;
    const timer = setInterval(async () => {
      if (!(await isUp())) return;
      clearInterval(timer);
      setLost(false);
      back.current();
    }, ASK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [isLost]);

  return {
    isLost,
    noteLoss: () => setLost(true),
    takeMissed: () => {
      const wasMissed = missed.current;
      missed.current = false;
      return wasMissed;
    },
  };
}
