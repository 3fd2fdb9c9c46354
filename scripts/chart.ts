/**
 * deploy/chart/: the Helm chart, made of deploy/base/ and of the components that kustomize uses, so that both
 * install the same. A component of a kustomization is a value here.
 */
import { basename, join } from 'node:path';

import { parse, parseAllDocuments, stringify } from 'yaml';

import { type Guard, systemNamespace } from '../guard/guard.ts';
import manifest from '../package.json' with { type: 'json' };
import { ChartTemplate, type JsonValue, TemplateText } from './chart-template.ts';
import {
  camelCase,
  chartValues,
  type ValueOption,
  valueOptions,
  valuesSchema,
  valuesYaml,
  type Workload,
  type WorkloadDefaults,
} from './chart-values.ts';
import { extras } from './deploy-choice.ts';
import type { Kustomization, Manifest } from './kustomize.ts';

/** Where the files of {@link chartFiles} are. */
export const chartDirectory = 'deploy/chart';

const made = 'Made from deploy/ and apps/guards.ts by `node scripts/manifests.ts --write`. Change it there.';
const label = ['metadata', 'labels', 'app.kubernetes.io/part-of'];
const pod = ['spec', 'template', 'spec'];
const container = [...pod, 'containers', '0'];

/** The value that switches a directory of deploy/ on: `guards/bpf-programs/v0.5` is `bpfProgramsV05`. */
export function extraValue(directory: string): string {
  return camelCase(directory.replace(/^guards\//, '')).replaceAll('.', '');
}

/** The one that has more values than a switch, as it has a workload. */
export const uiExtra = 'ui';

/** The value with which a directory of deploy/ comes. */
function switchOf(extra: string): string {
  return extra === uiExtra ? '.Values.ui.enabled' : `.Values.components.${extraValue(extra)}`;
}

/** A file of deploy/ as a template. */
interface TemplateFile {
  readonly name: string;
  /** An expression; `undefined`: always. */
  readonly when: string | undefined;
  readonly objects: ChartTemplate[];
}

/**
 * The text of each file, by its path in {@link chartDirectory}.
 *
 * @param read - Gives the text of a file by its path from the top.
 * @throws {Error} if a component has what a chart cannot say
 */
export function chartFiles(guards: readonly Guard[], read: (path: string) => string): Map<string, string> {
  const templates = baseTemplates(read);
  const [agent, operator] = ['rampart-agent', 'rampart-operator'].map((name) => workload(templates, name));
  if (!agent || !operator) throw new Error('deploy/base has no agent or no operator');
  for (const { name } of guards)
    addComponent(templates, `guards/${name}`, `.Values.guards.${camelCase(name)}.enabled`, read);
  const chosen = extras.filter((extra) => isOfGuards(extra, guards));
  for (const extra of chosen) addComponent(templates, extra, switchOf(extra), read);
  const ui = workload(templates, 'rampart-ui');
  if (!ui) throw new Error(`deploy/${uiExtra} has no Deployment rampart-ui`);
  const defaults = { agent: defaultsOf(agent), operator: defaultsOf(operator), ui: defaultsOf(ui) };
  const options = valueOptions(guards);
  setValues(agent, 'agent', options);
  setValues(operator, 'operator', options);
  setValues(ui, 'ui', []);
  operator.set(['spec', 'replicas'], new TemplateText(() => ' {{ .Values.operator.replicas }}'));

  const values = chartValues(
    guards,
    new Map(
      chosen.filter((extra) => extra !== uiExtra).map((extra) => [extraValue(extra), aboutOf(extra, read)]),
    ),
    defaults,
  );
  return new Map([
    ['Chart.yaml', chartYaml()],
    ['values.yaml', `# ${made}\n${valuesYaml(values)}`],
    ['values.schema.json', JSON.stringify(valuesSchema(values))],
    ['templates/_helpers.tpl', helpers],
    ['templates/NOTES.txt', notes],
    ...templates
      .filter(({ objects }) => objects.length > 0)
      .map((template): [string, string] => [`templates/${template.name}.yaml`, textOf(template)]),
  ]);
}

function textOf({ when, objects }: TemplateFile): string {
  const lines = objects.map((object) => `---\n${object.text()}`).join('');
  const text = when === undefined ? lines : `{{- if ${when} }}\n${lines}{{- end }}\n`;
  return `{{- /* ${made} */}}\n${text}`;
}

/** @throws {Error} where a file has what a chart cannot say */
function baseTemplates(read: (path: string) => string): TemplateFile[] {
  const { resources = [], labels = [] } = kustomizationIn('base', read);
  return resources.map((resource) => {
    const objects = objectsIn(join('deploy/base', resource), read);
    for (const object of objects) setLabels(object, labels);
    const name = basename(resource, '.yaml');
    // Helm makes the namespace of its release itself (--create-namespace), and does not take over what is there.
    const when = name === 'namespace' ? `ne .Release.Namespace "${systemNamespace}"` : undefined;
    return { name, when, objects };
  });
}

function addComponent(
  templates: TemplateFile[],
  directory: string,
  when: string,
  read: (path: string) => string,
): void {
  const {
    resources = [],
    configMapGenerator = [],
    labels = [],
    patches = [],
    ...more
  } = kustomizationIn(directory, read);
  // Its images are those of the values.
  const unknown = Object.keys(more).filter((key) => !['apiVersion', 'kind', 'images'].includes(key));
  if (unknown.length > 0) throw new Error(`the chart cannot express ${unknown.join(', ')} of ${directory}`);
  const at = join('deploy', directory);
  const objects = resources.flatMap((resource) => objectsIn(join(at, resource), read));
  for (const { name, namespace, files, options } of configMapGenerator) {
    const data = Object.fromEntries(files.map((path) => [path, read(join(at, path))]));
    const metadata = { name, namespace, labels: options.labels };
    objects.push(new ChartTemplate({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data }));
  }
  templates.push({ name: basename(directory), when, objects });
  const all = templates.flatMap((template) => template.objects);
  for (const { target, patch } of patches) {
    for (const one of all.filter(({ kind, name }) => kind === target.kind && name === target.name))
      one.patch(parse(patch), when);
  }
  for (const object of objects) {
    setLabels(object, labels);
    // Without it, the objects of users would go with the release.
    if (object.kind === 'CustomResourceDefinition')
      object.set(['metadata', 'annotations', 'helm.sh/resource-policy'], 'keep');
  }
  // kustomize labels what came before too.
  if (labels.length > 0 && all.some((object) => object.get(label) === undefined))
    throw new Error(
      `${directory} labels what came before it: give it another place in scripts/deploy-choice.ts`,
    );
}

function setLabels(object: ChartTemplate, labels: NonNullable<Kustomization['labels']>): void {
  for (const { pairs } of labels) {
    for (const [name, value] of Object.entries(pairs)) object.set(['metadata', 'labels', name], value);
  }
}

function objectsIn(path: string, read: (path: string) => string): ChartTemplate[] {
  return parseAllDocuments(read(path)).map((document) => new ChartTemplate(document.toJS() as Manifest));
}

function kustomizationIn(directory: string, read: (path: string) => string): Kustomization {
  return parse(read(join('deploy', directory, 'kustomization.yaml'))) as Kustomization;
}

function workload(templates: readonly TemplateFile[], wanted: string): ChartTemplate | undefined {
  return templates
    .flatMap(({ objects }) => objects)
    .find(({ kind, name }) => name === wanted && /^(?:DaemonSet|Deployment)$/.test(kind));
}

function isOfGuards(extra: string, guards: readonly Guard[]): boolean {
  const [, name] = /^guards\/([^/]+)/.exec(extra) ?? [];
  return name === undefined || guards.some((guard) => guard.name === name);
}

/** The first sentence at the top of its kustomization. */
function aboutOf(directory: string, read: (path: string) => string): string {
  const [comment = ''] = /^(?:#.*\n)*/.exec(read(join('deploy', directory, 'kustomization.yaml'))) ?? [];
  const lines = comment.split('\n').filter((line) => line !== '' && !line.startsWith('# Made from '));
  const words = lines.map((line) => line.replace(/^# ?/, '')).join(' ');
  return /^.*?[^.]\.(?= |$)/.exec(words)?.[0] ?? words;
}

function defaultsOf(object: ChartTemplate): WorkloadDefaults {
  const of = (path: readonly string[], without: JsonValue): JsonValue => object.get(path) ?? without;
  return {
    resources: of([...container, 'resources'], {}),
    tolerations: of([...pod, 'tolerations'], []),
    nodeSelector: of([...pod, 'nodeSelector'], {}),
  };
}

function setValues(object: ChartTemplate, who: Workload, options: readonly ValueOption[]): void {
  const block = (value: string): TemplateText =>
    new TemplateText((indent) => `\n${' '.repeat(indent)}{{- toYaml ${value} | nindent ${indent} }}`);
  const given = (path: readonly string[], value: string): void => {
    // Fields of deploy/base/ keep their place, even if they are empty.
    object.set(path, block(value), object.get(path) === undefined ? value : undefined);
  };
  object.set([...container, 'image'], new TemplateText(() => ' {{ include "rampart.image" . | quote }}'));
  object.set(
    [...container, 'imagePullPolicy'],
    new TemplateText(() => ' {{ .Values.image.pullPolicy }}'),
    '.Values.image.pullPolicy',
  );
  given([...pod, 'imagePullSecrets'], '.Values.imagePullSecrets');
  given([...container, 'resources'], `.Values.${who}.resources`);
  given([...pod, 'tolerations'], `.Values.${who}.tolerations`);
  given([...pod, 'nodeSelector'], `.Values.${who}.nodeSelector`);
  for (const option of options) {
    if (who !== 'ui' && option.on.includes(who)) object.append([...container, 'args'], argumentsOf(option));
  }
  object.append([...container, 'args'], (indent) => {
    const space = ' '.repeat(indent);
    return `${space}{{- with .Values.${who}.args }}\n${space}{{- toYaml . | nindent ${indent} }}\n${space}{{- end }}\n`;
  });
}

function argumentsOf({ flag, value, kind }: ValueOption): (indent: number) => string {
  const [block, item] = {
    flag: ['if', flag],
    list: ['range', `{{ printf "${flag}=%s" (include "rampart.text" .) | quote }}`],
    text: ['with', `{{ printf "${flag}=%s" (include "rampart.text" .) | quote }}`],
  }[kind];
  return (indent) =>
    [`{{- ${block} ${value} }}`, `- ${item}`, '{{- end }}']
      .map((line) => `${' '.repeat(indent)}${line}\n`)
      .join('');
}

function chartYaml(): string {
  return `# ${made}\n${stringify(
    {
      ...{ apiVersion: 'v2', name: manifest.name, description: manifest.description, type: 'application' },
      ...{ version: manifest.version, appVersion: manifest.version },
      // ValidatingAdmissionPolicy.
      kubeVersion: '>=1.30.0-0',
      annotations: { licenses: manifest.license },
    },
    { lineWidth: 0, singleQuote: true },
  )}`;
}

const helpers = `{{- /* ${made} */}}
{{- define "rampart.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- /* Numbers of values are floating: without this, 2000000 would be written as 2e+06. */}}
{{- define "rampart.text" -}}
{{ if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end -}}
`;

const notes = `Rampart {{ .Chart.AppVersion }} is in the namespace ${systemNamespace}.

  kubectl rollout status -n ${systemNamespace} daemonset/rampart-agent
  kubectl logs -n ${systemNamespace} ds/rampart-agent    # findings of one node
  rampart status        # what is guarded, and why something is not
  rampart alerts -f     # findings of all nodes
{{- if eq .Release.Namespace "${systemNamespace}" }}

The agent needs more than Pod Security's baseline. Where the cluster enforces that:

  kubectl label namespace ${systemNamespace} pod-security.kubernetes.io/enforce=privileged
{{- end }}

To remove it, run \`rampart uninstall\` before \`helm uninstall {{ .Release.Name }} -n {{ .Release.Namespace }}\`: it also cleans
the nodes. CustomResourceDefinitions stay with helm uninstall.
`;
