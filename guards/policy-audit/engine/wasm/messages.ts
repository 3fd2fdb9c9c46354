/** The messages between a thread that runs policies and its owner. */
import type { MessagePort } from 'node:worker_threads';

import type { EvaluationError, HostOperation } from '../evaluator.ts';
import type { WasmRuntime } from './metadata.ts';
import type { MemoryLimits } from './module-imports.ts';
import type { Restoring } from './put-back.ts';

/** Data that each thread gets when it starts. */
export interface ThreadData {
  /** An Int32 that is 1 once the answer to a host call has been sent. */
  readonly answered: SharedArrayBuffer;
  /** Carries the answers to host calls. They can be received synchronously: a guest that waits cannot return to the event loop. */
  readonly answers: MessagePort;
}

/** A policy with its settings, sent once to each thread. */
export interface GuestPolicy {
  readonly id: number;
  readonly runtime: WasmRuntime;
  readonly module: WebAssembly.Module;
  /** As JSON. */
  readonly settings: string;
  readonly memoryPages: number;
  readonly answerBytes: number;
  readonly restoring: Restoring | undefined;
  /** Memory for a module that does not define its own. */
  readonly importedMemory: MemoryLimits | undefined;
}

export type GuestOperation = 'validate' | 'validate_settings';

export interface Job {
  readonly id: number;
  readonly policy: number;
  readonly operation: GuestOperation;
  /** The input of the guest, as JSON. */
  readonly input: string;
  /** For Rego: the documents that policies see as `data`. Without `text` if the thread already has that version. */
  readonly data?: { readonly version: number; readonly text?: string } | undefined;
}

export type ToThread =
  | { readonly do: 'add'; readonly policy: GuestPolicy }
  | { readonly do: 'remove'; readonly policy: number }
  | { readonly do: 'run'; readonly job: Job };

export type Outcome =
  | { readonly answer: string; readonly stderr?: string }
  | { readonly why: EvaluationError['why']; readonly message: string };

export interface AskedOfHost extends HostOperation {
  readonly payload: Uint8Array;
}

/** `ready`: the thread's code is loaded. */
export type FromThread =
  | { readonly ready: true }
  | { readonly job: number; readonly outcome: Outcome }
  | { readonly job: number; readonly ask: AskedOfHost };

export type AnswerOfHost = { readonly answer: Uint8Array } | { readonly error: string };
