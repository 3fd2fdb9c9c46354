/** Links: a program attached to a hook, for as long as the link is open. */
import { libbpf, type Pointer } from './ffi.ts';

/** An attachment. Disposing detaches; so does the kernel when the process ends, for whatever reason. */
export class BpfLink implements Disposable {
  readonly name: string;
  #pointer: Pointer | null;

  constructor(pointer: Pointer, name: string) {
    this.#pointer = pointer;
    this.name = name;
  }

  [Symbol.dispose](): void {
    if (this.#pointer === null) return;
    libbpf().linkDestroy(this.#pointer);
    this.#pointer = null;
  }
}
