// Where the reader is: the path and the query of the address bar, as signals. What can be shown can
// be linked to.
import { computed, signal } from '@preact/signals';

const here = signal(location.pathname + location.search);
export const path = computed(() => here.value.split('?')[0] ?? '/');
export const query = computed(() => new URLSearchParams(here.value.split('?')[1] ?? ''));

function settle(): void {
  here.value = location.pathname + location.search;
}
addEventListener('popstate', settle);

export function navigate(to: string, replace = false): void {
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  settle();
  if (!replace) scrollTo(0, 0);
}

/** Sets parameters of the query; an empty one is taken out. */
export function setQuery(values: Record<string, string>, replace = true): void {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(values)) {
    if (value === '') next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  navigate(text === '' ? path.value : `${path.value}?${text}`, replace);
}

/** Links inside of the console are followed without loading it again. */
export function followLinks(): void {
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || link.target !== '' || link.origin !== location.origin) return;
    if (link.hasAttribute('download') || link.pathname.startsWith('/v1/')) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}
