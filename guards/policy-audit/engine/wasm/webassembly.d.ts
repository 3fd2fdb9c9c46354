/**
 * The part of the WebAssembly API that is used here: TypeScript has it only in the browser types
 * (https://webassembly.github.io/spec/js-api/).
 */
declare namespace WebAssembly {
  type ImportExportKind = 'function' | 'global' | 'memory' | 'table' | 'tag';
  interface ModuleImportDescriptor {
    readonly module: string;
    readonly name: string;
    readonly kind: ImportExportKind;
  }
  interface ModuleExportDescriptor {
    readonly name: string;
    readonly kind: ImportExportKind;
  }
  /** Shared, not copied, when it is posted to a thread. */
  class Module {
    private readonly brand;
    constructor(bytes: Uint8Array<ArrayBuffer>);
    static imports(module: Module): ModuleImportDescriptor[];
    static exports(module: Module): ModuleExportDescriptor[];
  }
  class Memory {
    constructor(limits: { initial: number; maximum?: number });
    readonly buffer: ArrayBuffer;
    grow(pages: number): number;
  }
  class Global {
    private constructor();
    value: unknown;
  }
  class Table {
    private constructor();
    readonly length: number;
  }
  type ExportValue = ((...args: never[]) => unknown) | Global | Memory | Table;
  type ImportValue = ExportValue;
  type Imports = Record<string, Record<string, ImportValue>>;
  class Instance {
    constructor(module: Module, imports?: Imports);
    readonly exports: Readonly<Record<string, ExportValue>>;
  }
  class CompileError extends Error {}
  class LinkError extends Error {}
  class RuntimeError extends Error {}
  function compile(bytes: Uint8Array<ArrayBuffer>): Promise<Module>;
}
