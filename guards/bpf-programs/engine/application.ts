/**
 * Converts a ClusterBpfApplication or BpfApplication of v0.6: each link becomes a member in the form of v0.5.5, and each program one more
 * member, for nodes where it has no link.
 */
import {
  type ApplicationProgram,
  type ApplicationSpec,
  DEFAULT_PRIORITY,
  type InterfaceSelection,
  type LinkSpecs,
  type LinkType,
  applicationMembers,
} from '../application-schema.ts';
import type { TypedProgram } from '../api.ts';
import type { Bytecode, ContainerSelector } from '../spec-schema.ts';
import type { AnyInterfaceSelector, Member, MemberFields } from './member.ts';
import { distinctIds } from './names.ts';

export function bytecodeOf({ image, path }: ApplicationSpec['byteCode']): Bytecode {
  if (image === undefined) return path === undefined ? {} : { path };
  const { url, imagePullPolicy, imagePullSecret } = image;
  const secret = imagePullSecret && { imagepullsecret: imagePullSecret };
  return { image: { url, imagepullpolicy: imagePullPolicy, ...secret }, ...(path !== undefined && { path }) };
}

export function membersOfApplication({ programs, mapOwnerSelector }: ApplicationSpec): Member[] {
  const idOf = distinctIds();
  return programs.flatMap((program, index) => {
    const field = fieldOf(program);
    // The schema rejects this; an object that was stored under an earlier schema has nothing to run.
    if (field === undefined) return [];
    const appProgramId = idOf(`${field}-${program.name}`);
    const common = { bpffunctionname: program.name, mapownerselector: mapOwnerSelector };
    const { function: kernelFunction, links } = program[field] ?? {};
    const path = `spec.programs[${index}]`;
    const base = {
      ...typed(field, { ...common, func_name: kernelFunction }),
      ...{ appProgramId, program: index, field: path, fields: fieldsOf(field, path, path) },
      unlinked: { programType: field, kernelFunction },
    } as unknown as Member;
    const linked = (links ?? []).map((link, at): Member => {
      const place = `${path}.${field}.links[${at}]`;
      return {
        ...typed(field, { ...common, ...readers[field](link as never, kernelFunction) }),
        ...{ appProgramId, program: index, field: place, fields: fieldsOf(field, path, place) },
      };
    });
    return [base, ...linked];
  });
}

/** The spec field that has the links of a program's type: `xdp` for `XDP`. Undefined for an unknown type. */
export function fieldOf({ type }: Pick<ApplicationProgram, 'type'>): LinkType | undefined {
  return (Object.keys(applicationMembers) as LinkType[]).find(
    (field) => applicationMembers[field].name === type,
  );
}

function typed(type: LinkType, spec: object): TypedProgram {
  return { type, spec } as unknown as TypedProgram;
}

function fieldsOf(type: LinkType, program: string, link: string): MemberFields {
  const isNetwork = type === 'xdp' || type === 'tc' || type === 'tcx';
  return {
    functionName: `${program}.name`,
    mapOwnerSelector: 'spec.mapOwnerSelector',
    interfaceSelector: `${link}.interfaceSelector`,
    primaryNodeInterface: `${link}.interfaceSelector.primaryNodeInterface`,
    containers: `${link}.${isNetwork ? 'networkNamespaces' : 'containers'}`,
  };
}

type Reader<Field extends LinkType> = (link: LinkSpecs[Field], kernelFunction: string | undefined) => object;

/** Convert a link into the spec fields of v0.5.5, by type. */
const readers: { readonly [Field in LinkType]: Reader<Field> } = {
  xdp: (link) => ({ ...onInterfaces(link), proceedon: spelled(link.proceedOn) }),
  tc: (link) => ({ ...onInterfaces(link), ...directed(link), proceedon: spelled(link.proceedOn) }),
  tcx: (link) => ({ ...onInterfaces(link), ...directed(link) }),
  fentry: (_, func_name) => ({ func_name }),
  fexit: (_, func_name) => ({ func_name }),
  kprobe: (link) => ({ func_name: link.function, offset: link.offset }),
  kretprobe: (link) => ({ func_name: link.function, offset: 0 }),
  uprobe: inProcesses,
  uretprobe: inProcesses,
  tracepoint: ({ name }) => ({ names: [name] }),
};

function onInterfaces({
  interfaceSelector,
  priority = DEFAULT_PRIORITY,
  networkNamespaces,
}: LinkSpecs['xdp'] | LinkSpecs['tcx']): object {
  return {
    interfaceselector: selectorOf(interfaceSelector),
    priority,
    ...(networkNamespaces !== undefined && { containers: networkNamespaces satisfies ContainerSelector }),
  };
}

function selectorOf({
  interfaces,
  primaryNodeInterface,
  interfacesDiscoveryConfig,
}: InterfaceSelection): AnyInterfaceSelector {
  if (interfaces !== undefined) return { interfaces };
  if (interfacesDiscoveryConfig !== undefined) return { discovery: interfacesDiscoveryConfig };
  return primaryNodeInterface === undefined ? {} : { primarynodeinterface: primaryNodeInterface };
}

/** The spelling of v0.5.5: lower case, and in one word an underscore. */
function spelled(actions: readonly string[]): string[] {
  return actions.map((action) =>
    action === 'DispatcherReturn' ? 'dispatcher_return' : action.toLowerCase(),
  );
}

function directed({ direction }: LinkSpecs['tcx']): object {
  return { direction: direction.toLowerCase() };
}

function inProcesses({ function: func_name, offset, target, pid, containers }: LinkSpecs['uprobe']): object {
  const selector = containers && {
    namespace: containers.namespace,
    pods: containers.pods,
    ...(containers.containerNames && { containernames: containers.containerNames }),
  };
  return { func_name, offset, target, pid, ...(selector && { containers: selector }) };
}
