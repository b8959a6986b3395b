import { render } from 'preact';
import './style.css';
import { dropKey } from './api/session';
import { App } from './app';
import { startWatching } from './live/watch';
import { followLinks } from './router';

const root = document.getElementById('root');
if (root) {
  // A link that brings a token is for whoever it belongs to, whoever was here before.
  if (location.hash.startsWith('#divvy_')) dropKey();
  followLinks();
  startWatching();
  render(<App />, root);
}
