/** The values of the chart: one tree, of which values.yaml, its schema and the arguments of the processes are made. */
import { stringify } from 'yaml';

import type { Guard, GuardCommand, GuardOption } from '../guard/guard.ts';
import { optionOf } from '../guard/guard-options.ts';
import type { JsonValue } from './chart-template.ts';

/** A value of the chart, or some under one name. */
export type ChartValue = OneValue | ValueGroup;

interface OneValue {
  readonly name: string;
  readonly about: string;
  readonly initial: JsonValue;
  /** The JSON Schema of the value. */
  readonly schema: Readonly<Record<string, JsonValue>>;
}

interface ValueGroup {
  readonly name: string;
  readonly about?: string;
  readonly values: readonly ChartValue[];
}

/** An option that a value sets. */
export interface ValueOption {
  /** `--pod-cidr` */
  readonly flag: string;
  /** `.Values.guards.networkPolicy.podCidr` */
  readonly value: string;
  readonly kind: 'flag' | 'list' | 'text';
  readonly on: readonly GuardCommand[];
}

export type Workload = 'agent' | 'operator' | 'ui';

/** The default values of a workload. */
export interface WorkloadDefaults {
  readonly resources: JsonValue;
  readonly tolerations: JsonValue;
  readonly nodeSelector: JsonValue;
}

const objects = { type: 'array', items: { type: 'object' } };
const strings = { type: 'array', items: { type: 'string' } };
const text = { type: 'string' };

/** `file-access` as `fileAccess`. */
export function camelCase(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9]+(.)/g, (_, letter: string) => letter.toUpperCase());
}

/** The options of guards in the chart. An option of several guards is a value of the agent. */
export function valueOptions(guards: readonly Guard[]): ValueOption[] {
  return [...optionsOf(guards)].map(([option, guard]) => {
    const { long, name } = named(option);
    const place = guard === undefined ? 'agent' : `guards.${camelCase(guard)}`;
    return { flag: long, value: `.Values.${place}.${name}`, kind: kindOf(option), on: option.on };
  });
}

/** Those of the agent and the operator, by the guard that alone has it. */
function optionsOf(guards: readonly Guard[]): Map<GuardOption, string | undefined> {
  const found = new Map<GuardOption, string | undefined>();
  for (const { name, options = [] } of guards) {
    for (const option of options) {
      if (option.on.some((command) => command !== 'standalone'))
        found.set(option, found.has(option) ? undefined : name);
    }
  }
  return found;
}

function named(option: GuardOption): { readonly long: string; readonly name: string } {
  const made = optionOf(option);
  return { long: made.long ?? '', name: made.attributeName() };
}

function kindOf({ flags, repeatable }: GuardOption): ValueOption['kind'] {
  if (!flags.includes('<')) return 'flag';
  return repeatable === true ? 'list' : 'text';
}

function optionValue(option: GuardOption): OneValue {
  const { long, name } = named(option);
  const { description, choices, default: without, defaultText = without } = option;
  const more = [
    ...(choices === undefined ? [] : [`one of ${choices.join(', ')}`]),
    ...(defaultText === undefined ? [] : [`default: ${String(defaultText)}`]),
  ];
  const about = `${long}: ${[description, ...more].join('; ')}`;
  const scalar = { type: ['string', 'integer'] };
  switch (kindOf(option)) {
    case 'flag':
      return { name, about, initial: false, schema: { type: 'boolean' } };
    case 'list':
      return { name, about, initial: [], schema: { type: 'array', items: scalar } };
    case 'text': {
      const schema =
        choices === undefined ? { type: [...scalar.type, 'null'] } : { enum: [...choices, null] };
      return { name, about, initial: null, schema };
    }
  }
}

/**
 * @param extras - What else can be switched on, with a sentence about it.
 * @param defaults - Of deploy/base/.
 */
export function chartValues(
  guards: readonly Guard[],
  extras: ReadonlyMap<string, string>,
  defaults: Readonly<Record<Workload, WorkloadDefaults>>,
): ValueGroup {
  const options = [...optionsOf(guards)];
  const ofGuard = (name: string | undefined): OneValue[] =>
    options.filter(([, guard]) => guard === name).map(([option]) => optionValue(option));
  const workload = (name: Workload, command: string = name): OneValue[] => [
    { name: 'args', about: `More arguments of rampart ${command}.`, initial: [], schema: strings },
    { name: 'resources', about: '', initial: defaults[name].resources, schema: { type: 'object' } },
    { name: 'tolerations', about: '', initial: defaults[name].tolerations, schema: objects },
    {
      ...{ name: 'nodeSelector', about: '', initial: defaults[name].nodeSelector },
      schema: { type: 'object', additionalProperties: text },
    },
  ];
  const image: OneValue[] = [
    {
      ...{ name: 'repository', about: 'Where nodes pull the image from.', initial: 'rampart' },
      schema: { ...text, minLength: 1 },
    },
    { name: 'tag', about: 'Default: the version of the chart.', initial: '', schema: text },
    {
      ...{ name: 'digest', about: 'Instead of a tag: sha256:...', initial: '' },
      schema: { ...text, pattern: '^(sha256:[0-9a-f]{64})?$' },
    },
    {
      ...{ name: 'pullPolicy', about: 'Default: as Kubernetes decides.', initial: '' },
      schema: { enum: ['', 'Always', 'IfNotPresent', 'Never'] },
    },
  ];
  const switched = (name: string, about: string, initial: boolean): OneValue => ({
    ...{ name, about, initial, schema: { type: 'boolean' } },
  });
  return {
    name: '',
    values: [
      { name: 'image', about: 'The image of the agent and the operator.', values: image },
      {
        ...{ name: 'imagePullSecrets', initial: [], schema: objects },
        about: 'Secrets of rampart-system: [{name: registry}].',
      },
      {
        name: 'guards',
        about: 'The guards, with their options; an option that is not set has its default.',
        values: guards.map(({ name, summary }) => ({
          ...{ name: camelCase(name), about: `${name} ${summary}.` },
          values: [switched('enabled', '', true), ...ofGuard(name)],
        })),
      },
      {
        name: 'components',
        about: 'What else is installed: deploy/README.md.',
        values: [...extras].map(([name, about]) => switched(name, about, false)),
      },
      {
        ...{ name: 'agent', about: 'The DaemonSet rampart-agent.' },
        values: [...ofGuard(undefined), ...workload('agent')],
      },
      {
        ...{ name: 'operator', about: 'The Deployment rampart-operator.' },
        values: [
          {
            ...{ name: 'replicas', about: 'One works, the others wait to take over.', initial: 2 },
            schema: { type: 'integer', minimum: 0 },
          },
          ...workload('operator'),
        ],
      },
      {
        name: 'ui',
        about:
          'The page of `rampart ui` for users of the cluster: the Deployment and the Service rampart-ui. docs/ui.md says how they reach it.',
        values: [switched('enabled', '', false), ...workload('ui', 'ui-server')],
      },
    ],
  };
}

/** As values.yaml. */
export function valuesYaml({ values }: ValueGroup, indent = ''): string {
  return values
    .map((value) => {
      const about = value.about ? `${wrapped(value.about, `${indent}# `)}\n` : '';
      if ('values' in value) return `${about}${indent}${value.name}:\n${valuesYaml(value, `${indent}  `)}`;
      const lines = stringify({ [value.name]: value.initial }, { lineWidth: 0, singleQuote: true });
      return about + lines.replaceAll(/^(?=.)/gm, indent);
    })
    .join('');
}

/** As values.schema.json. Another name than these is an error; `global` is what Helm hands to charts within charts. */
export function valuesSchema(group: ValueGroup): object {
  const schema = ({
    values,
  }: ValueGroup): { properties: Record<string, object>; [more: string]: unknown } => ({
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(
      values.map((value) => [
        value.name,
        {
          ...(value.about && { description: value.about }),
          ...('values' in value ? schema(value) : value.schema),
        },
      ]),
    ),
  });
  const { properties, ...more } = schema(group);
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...more,
    properties: { ...properties, global: { type: 'object' } },
  };
}

function wrapped(words: string, before: string): string {
  const lines: string[] = [];
  for (const word of words.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && before.length + last.length + word.length < 110)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.map((line) => before + line).join('\n');
}
