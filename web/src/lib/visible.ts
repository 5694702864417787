// Says whether the page is looked at, now and whenever that changes, until what it returns is called.
export function watchVisible(tell: (visible: boolean) => void): () => void {
  const watch = (): void => tell(!document.hidden);
  document.addEventListener('visibilitychange', watch);
  watch();
  return () => document.removeEventListener('visibilitychange', watch);
}
