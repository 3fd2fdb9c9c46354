/**
 * The functions of libbpf that Rampart calls, with their C prototypes. A C pointer is a `bigint`; ffi.ts has the conventions.
 */

/** The address of memory that C owns. */
export type Pointer = bigint;

/** Declares a function of a library by its C prototype. */
type Declare = <F>(prototype: string) => F;

function declareObjects(f: Declare) {
  return {
    versionString: f<() => string>('const char *libbpf_version_string()'),
    setPrint: f<(print: Pointer) => Pointer | null>('void *libbpf_set_print(libbpf_print_fn *)'),
    objectOpenMem: f<(bytes: Uint8Array, sizeBytes: number, options: Uint8Array | null) => Pointer | null>(
      'void *bpf_object__open_mem(const void *, size_t, const void *)',
    ),
    objectLoad: f<(object: Pointer) => number>('int bpf_object__load(void *)'),
    objectClose: f<(object: Pointer) => void>('void bpf_object__close(void *)'),
    objectFindProgram: f<(object: Pointer, name: string) => Pointer | null>(
      'void *bpf_object__find_program_by_name(void *, const char *)',
    ),
    objectFindMap: f<(object: Pointer, name: string) => Pointer | null>(
      'void *bpf_object__find_map_by_name(void *, const char *)',
    ),
    objectNextProgram: f<(object: Pointer, previous: Pointer | null) => Pointer | null>(
      'void *bpf_object__next_program(void *, void *)',
    ),
    objectNextMap: f<(object: Pointer, previous: Pointer | null) => Pointer | null>(
      'void *bpf_object__next_map(void *, void *)',
    ),
    /** Fills `info` (struct bpf_prog_info, bpf_map_info or bpf_link_info); `size` is in and out. */
    infoByFd: f<(fd: number, info: Uint8Array, size: [number]) => number>(
      'int bpf_obj_get_info_by_fd(int, _Inout_ void *, _Inout_ uint32_t *)',
    ),
  } as const;
}

/** Programs, and the links that attach them. */
function declarePrograms(f: Declare) {
  return {
    programName: f<(program: Pointer) => string>('const char *bpf_program__name(void *)'),
    programFd: f<(program: Pointer) => number>('int bpf_program__fd(void *)'),
    programSetAutoload: f<(program: Pointer, autoload: boolean) => number>(
      'int bpf_program__set_autoload(void *, bool)',
    ),
    programSetAttachTarget: f<(program: Pointer, programFd: number, name: string) => number>(
      'int bpf_program__set_attach_target(void *, int, const char *)',
    ),
    programAttach: f<(program: Pointer) => Pointer | null>('void *bpf_program__attach(void *)'),
    programAttachRawTracepoint: f<(program: Pointer, name: string) => Pointer | null>(
      'void *bpf_program__attach_raw_tracepoint(void *, const char *)',
    ),
    programType: f<(program: Pointer) => number>('int bpf_program__type(void *)'),
    programSetType: f<(program: Pointer, type: number) => number>('int bpf_program__set_type(void *, int)'),
    programSetExpectedAttachType: f<(program: Pointer, type: number) => number>(
      'int bpf_program__set_expected_attach_type(void *, int)',
    ),
    programSectionName: f<(program: Pointer) => string>('const char *bpf_program__section_name(void *)'),
    /** After loading, these are relocated, followed by the subprograms, and contain the descriptors of maps. */
    programInsns: f<(program: Pointer) => Pointer | null>('void *bpf_program__insns(void *)'),
    programInsnCount: f<(program: Pointer) => number | bigint>('size_t bpf_program__insn_cnt(void *)'),
    programSetLogLevel: f<(program: Pointer, level: number) => number>(
      'int bpf_program__set_log_level(void *, uint32_t)',
    ),
    /** The buffer has to stay where it is until the object is loaded. */
    programSetLogBuffer: f<(program: Pointer, buffer: Uint8Array, sizeBytes: number) => number>(
      'int bpf_program__set_log_buf(void *, void *, size_t)',
    ),
    linkDestroy: f<(link: Pointer) => number>('int bpf_link__destroy(void *)'),
  } as const;
}

function declareMaps(f: Declare) {
  return {
    mapName: f<(map: Pointer) => string>('const char *bpf_map__name(void *)'),
    mapIsInternal: f<(map: Pointer) => boolean>('bool bpf_map__is_internal(void *)'),
    mapReuseFd: f<(map: Pointer, fd: number) => number>('int bpf_map__reuse_fd(void *, int)'),
    mapSetPinPath: f<(map: Pointer, path: string | null) => number>(
      'int bpf_map__set_pin_path(void *, const char *)',
    ),
    /** The path at which libbpf would pin the map; null if it would not. */
    mapPinPath: f<(map: Pointer) => string | null>('const char *bpf_map__pin_path(void *)'),
    mapType: f<(map: Pointer) => number>('int bpf_map__type(void *)'),
    mapFlags: f<(map: Pointer) => number>('uint32_t bpf_map__map_flags(void *)'),
    mapFd: f<(map: Pointer) => number>('int bpf_map__fd(void *)'),
    mapSetMaxEntries: f<(map: Pointer, entries: number) => number>(
      'int bpf_map__set_max_entries(void *, uint32_t)',
    ),
    mapMaxEntries: f<(map: Pointer) => number>('uint32_t bpf_map__max_entries(void *)'),
    mapSetKeySize: f<(map: Pointer, sizeBytes: number) => number>(
      'int bpf_map__set_key_size(void *, uint32_t)',
    ),
    mapSetValueSize: f<(map: Pointer, sizeBytes: number) => number>(
      'int bpf_map__set_value_size(void *, uint32_t)',
    ),
    mapKeySize: f<(map: Pointer) => number>('uint32_t bpf_map__key_size(void *)'),
    mapValueSize: f<(map: Pointer) => number>('uint32_t bpf_map__value_size(void *)'),
    /** The map's initial bytes (.rodata, .bss); writable until the object is loaded. */
    mapInitialValue: f<(map: Pointer, sizeBytes: [bigint | number]) => Pointer | null>(
      'void *bpf_map__initial_value(void *, _Out_ size_t *)',
    ),
    mapLookup: f<(fd: number, key: Uint8Array, value: Uint8Array) => number>(
      'int bpf_map_lookup_elem(int, const void *, _Out_ void *)',
    ),
    mapLookupAndDelete: f<(fd: number, key: Uint8Array, value: Uint8Array) => number>(
      'int bpf_map_lookup_and_delete_elem(int, const void *, _Out_ void *)',
    ),
    mapUpdate: f<(fd: number, key: Uint8Array, value: Uint8Array, flags: number) => number>(
      'int bpf_map_update_elem(int, const void *, const void *, uint64_t)',
    ),
    mapDelete: f<(fd: number, key: Uint8Array) => number>('int bpf_map_delete_elem(int, const void *)'),
    mapNextKey: f<(fd: number, key: Uint8Array | null, next: Uint8Array) => number>(
      'int bpf_map_get_next_key(int, const void *, _Out_ void *)',
    ),
  } as const;
}

function declareBtf(f: Declare) {
  return {
    btfParseRaw: f<(path: string) => Pointer | null>('void *btf__parse_raw(const char *)'),
    btfFindByNameKind: f<(btf: Pointer, name: string, kind: number) => number>(
      'int btf__find_by_name_kind(void *, const char *, uint32_t)',
    ),
    btfTypeById: f<(btf: Pointer, id: number) => Pointer | null>('void *btf__type_by_id(void *, uint32_t)'),
    btfNameByOffset: f<(btf: Pointer, offset: number) => string | null>(
      'const char *btf__name_by_offset(void *, uint32_t)',
    ),
    btfFree: f<(btf: Pointer) => void>('void btf__free(void *)'),
    objectBtf: f<(object: Pointer) => Pointer | null>('void *bpf_object__btf(void *)'),
    btfRawData: f<(btf: Pointer, sizeBytes: [number]) => Pointer | null>(
      'void *btf__raw_data(void *, _Out_ uint32_t *)',
    ),
  } as const;
}

export function declareLibbpf(f: Declare) {
  return { ...declareObjects(f), ...declarePrograms(f), ...declareMaps(f), ...declareBtf(f) };
}

/** libbpf's functions, with the names of its headers in camel case. */
export type Libbpf = ReturnType<typeof declareLibbpf>;
