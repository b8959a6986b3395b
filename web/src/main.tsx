import { render } from 'preact';
import './style.css';
import { takeBroughtToken, takeKeyFromProvider } from './api/session';
import { App } from './app';
import { startWatching } from './live/watch';
import { followLinks } from './router';

const root = document.getElementById('root');
if (root) {
  takeBroughtToken();
  takeKeyFromProvider();
  followLinks();
  startWatching();
  render(<App />, root);
}
