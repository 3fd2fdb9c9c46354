/** Gives the server a token for a session. @returns why it was refused; empty if it was not. */
export async function exchangeToken(token: string): Promise<string> {
  try {
    const response = await fetch('session', { headers: { Authorization: `Bearer ${token}` } });
    return response.ok ? '' : await response.text();
  } catch {
    // fetch also throws if the token has characters that are invalid in a header.
    return 'The server does not answer, or this is no token.';
  }
}
