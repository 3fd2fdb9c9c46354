import type { AcceptOptions } from './command.ts';
export async function runAccept(_name: string, _options: AcceptOptions): Promise<number> {
  return 1;
}
