// Light or dark: as the system says, unless somebody chose here.
import { effect, signal } from '@preact/signals';

type Theme = 'system' | 'light' | 'dark';
const name = 'divvy-theme';

function read(): Theme {
  const kept = localStorage.getItem(name);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

export const theme = signal<Theme>(read());

export function nextTheme(): void {
  theme.value = theme.value === 'system' ? 'light' : theme.value === 'light' ? 'dark' : 'system';
  if (theme.value === 'system') localStorage.removeItem(name);
  else localStorage.setItem(name, theme.value);
}

effect(() => {
  if (theme.value === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme.value;
  dispatchEvent(new Event('divvy-theme'));
});
