/** The page of `rampart ui`: exchanges the token of its link, and shows what the server reads. */
import { render } from 'preact';

import { App } from './app.tsx';
import { exchangeToken } from './exchange-token.ts';

/** @returns why it was refused; a browser that has opened the link before has its cookie, and needs no token. */
async function exchangeLink(): Promise<string> {
  const token = location.hash.slice(1);
  if (!/^[\w-]{20,}$/.test(token)) return '';
  // So the token is not kept in the history, and not in a copied address.
  history.replaceState(null, '', location.pathname);
  return await exchangeToken(token);
}

const page = document.getElementById('page');
if (page === null) throw new Error('index.html has no element #page');
const refusal = await exchangeLink();
render(<App refusal={refusal} />, page);
