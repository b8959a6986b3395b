/** Until so much time is over, the network comes back or `stop` says so; leaves nobody listening. */
export function pause(milliseconds: number, stop?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      removeEventListener('online', over);
      stop?.removeEventListener('abort', over);
      resolve();
    };
    const timer = setTimeout(over, milliseconds);
    addEventListener('online', over);
    stop?.addEventListener('abort', over);
  });
}
