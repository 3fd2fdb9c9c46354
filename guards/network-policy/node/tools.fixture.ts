/**
 * This machine's tools, and the chosen backend: as JSON, for a machine on which a test has hidden something.
 */
import { KeptNamespace } from '../dataplane/namespace.ts';
import { type BackendChoice, openBackend } from '../dataplane/backend.ts';
import { examineMachine, type NetworkPolicyMachine } from './machine.ts';

export interface Found {
  readonly machine: NetworkPolicyMachine;
  /** By the requested choice: the name of the backend, or why it has none. */
  readonly taken: Readonly<Record<BackendChoice, string>>;
  readonly warnings: readonly string[];
}

export async function lookAround(): Promise<Found> {
  const warnings: string[] = [];
  const logger = { info: () => {}, warn: (text: unknown) => void warnings.push(String(text)) };
  using namespace = KeptNamespace.create();
  const taken = async (choice: BackendChoice): Promise<string> => {
    try {
      const { name, dataplane } = await namespace.run(() => openBackend(choice, {}, logger));
      dataplane[Symbol.dispose]();
      return name;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  };
  return {
    machine: await examineMachine(),
    taken: {
      auto: await taken('auto'),
      nftables: await taken('nftables'),
      iptables: await taken('iptables'),
    },
    warnings,
  };
}

if (import.meta.main) process.stdout.write(`${JSON.stringify(await lookAround())}\n`);
