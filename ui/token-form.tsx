/** Asks for a token where the page is served to several people. It is sent once, and kept nowhere. */
import { useState } from 'preact/hooks';

import { exchangeToken } from './exchange-token.ts';
import { shown } from './text.ts';

/** @param why - The server's reason for asking. */
export function TokenForm({ why }: { readonly why: string }) {
  const [refusal, setRefusal] = useState('');
  const submit = (form: HTMLFormElement): void => {
    const token = new FormData(form).get('token');
    void exchangeToken(typeof token === 'string' ? token.trim() : '').then((refused) => {
      // Loads everything again, with the new session.
      if (refused === '') location.reload();
      else setRefusal(refused);
    });
  };
  return (
    <form
      class="card token"
      onSubmit={(event) => {
        event.preventDefault();
        submit(event.currentTarget);
      }}
    >
      <h2>Who is looking?</h2>
      <p class="dim">{shown(why)}</p>
      <label>
        Token <input type="password" name="token" autocomplete="off" required />
      </label>
      <button type="submit">Open</button>
      {refusal !== '' && (
        <p class="bad" role="alert">
          {shown(refusal)}
        </p>
      )}
    </form>
  );
}
