// Puts text on the clipboard; false when the browser refuses. navigator.clipboard is there only
// over https or on localhost, and the page is often asked for by a plain http://192.168...
export async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Not allowed here; the old way may be.
    }
  }
  const before = document.activeElement;
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'off-screen';
  area.setAttribute('aria-hidden', 'true');
  // An open dialog makes all outside it inert, and what is inert cannot be selected.
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return copied;
}
