/**
 * A guard's part of deploy/, as a kustomize Component: its resources, and patches that add its rights to the
 * roles of deploy/base/, and to the pods its flag, capabilities and mounts.
 *
 * Roles are patched, and not joined by others, so that a guard that is no longer deployed has no rights left:
 * kubectl removes nothing that is missing in its input. Parts of two guards occur once, except for rules and
 * capabilities, where duplicates are harmless.
 */
import { stringify } from 'yaml';

import type { Guard, GuardRights, PodNeeds, Right } from '../guard/guard.ts';
import { crdManifest } from '../lib/kube/crd/manifest.ts';
import type { Resource } from '../lib/kube/crd/resource.ts';
import { node, nodeClaim, sharedLimits, type WriteLimit } from '../guard/write-limits.ts';

const made = (from: string): string =>
  `# Made from ${from} by \`node scripts/manifests.ts --write\`. Change it there.\n`;

/** The component of one guard. `resources` are paths from its directory. */
export function componentYaml(guard: Guard, resources: readonly string[]): string {
  const { name, summary, rights, pod = {} } = guard;
  const flag = value('args', `--guards=${name}`);
  const patches = [
    target('DaemonSet', 'rampart-agent', [
      flag,
      ...(pod.args ?? []).map((arg) => value('args', arg)),
      ...(pod.capabilities ?? []).map(
        ({ name: one, why }) => comment(why) + value('securityContext/capabilities/add', one),
      ),
    ]),
    podPatch(pod),
    target('Deployment', 'rampart-operator', [flag]),
    ...(['agent', 'operator', 'viewer'] as const).flatMap((who) => [
      rules('ClusterRole', who, rights[who]?.filter(({ inSystem }) => inSystem !== true) ?? []),
      rules('Role', who, rights[who]?.filter(({ inSystem }) => inSystem === true) ?? []),
    ]),
  ];
  return `${made(`guards/${name}/`)}# ${name}: ${summary}.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
labels:
  - pairs:
      app.kubernetes.io/part-of: rampart
${resources.length === 0 ? '' : `resources:\n${resources.map((path) => `  - ${path}\n`).join('')}`}patches:
${patches.join('')}`;
}

/** A component that makes a definition of the guard that of another version of its API. */
export function variantYaml({ name }: Guard, variant: string, resource: Resource): string {
  const { metadata, spec } = crdManifest(resource);
  const patch = stringify([{ op: 'replace', path: '/spec', value: spec }], {
    lineWidth: 0,
    singleQuote: true,
    aliasDuplicateObjects: false,
    // kubectl reads YAML 1.1.
    compat: 'yaml-1.1',
  });
  return `${made(`guards/${name}/`)}# Beside the component of ${name}: ${resource.kind} is ${resource.scope === 'Cluster' ? 'cluster-scoped' : 'namespaced'}, as in ${variant}.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
${target('CustomResourceDefinition', metadata.name, [patch])}`;
}

/** The component of all guards. */
export function allYaml(guards: readonly Guard[]): string {
  const names = guards.map(({ name }) => `  - ${name}\n`).join('');
  return `${made('apps/guards.ts')}# Every guard.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
components:
${names}`;
}

/** The ClusterRoles that others bind; `undefined` without any. */
export function rolesYaml({ name: guard, rights: { roles = [] } }: Guard): string | undefined {
  if (roles.length === 0) return undefined;
  return made(`guards/${guard}/`) + roles.map(roleYaml).join('---\n');
}

/** The ClusterRole of deploy/uninstall/. */
export function uninstallYaml(rights: readonly Right[]): string {
  const why = 'What `rampart uninstall` needs, of all guards.';
  return made('apps/uninstall/') + roleYaml({ name: 'rampart-uninstall', why, rules: rights });
}

/** For deploy/base/: RBAC does not allow what is unlimited for want of a guard. */
export function admissionYaml(guards: readonly Guard[]): string {
  return (
    made('guard/write-limits.ts and guards/') +
    (['agent', 'operator'] as const)
      .map((who) => {
        const limits = [sharedLimits, ...guards.map(({ rights }) => rights.limits)];
        return policyYaml(
          `rampart-${who}`,
          limits.flatMap((of) => of?.[who] ?? []),
        );
      })
      .join('---\n')
  );
}

function policyYaml(name: string, limits: readonly WriteLimit[]): string {
  const byResource = Map.groupBy(
    limits.flatMap((limit) => limit.resources.map((resource) => ({ resource, limit }))),
    ({ resource, limit: { group } }) => `${group}/${resource}`,
  );
  const validations = new Map<string, { group: string; resources: string[]; of: WriteLimit[] }>();
  for (const all of byResource.values()) {
    const of = all.map(({ limit }) => limit);
    const key = JSON.stringify(of.map((limit) => limits.indexOf(limit)));
    const known = validations.get(key) ?? { group: of[0]?.group ?? '', resources: [], of };
    known.resources.push(...all.slice(0, 1).map(({ resource }) => resource));
    validations.set(key, known);
  }
  const resourceRules = [...validations.values()].map(({ group, resources }) => ({
    apiGroups: [group],
    apiVersions: ['*'],
    operations: ['CREATE', 'UPDATE', 'DELETE'],
    resources,
    scope: '*',
  }));
  const account = `system:serviceaccount:rampart-system:${name}`;
  const claim = `request.userInfo.?extra[?'${nodeClaim}'][?0].orValue('')`;
  const spec = {
    failurePolicy: 'Fail',
    // Defaults too: a field that the server adds would be a difference with each `kubectl apply`.
    matchConstraints: { matchPolicy: 'Equivalent', namespaceSelector: {}, objectSelector: {}, resourceRules },
    matchConditions: [{ name, expression: `request.userInfo.username == '${account}'` }],
    ...(limits.some((limit) => expressionOf(limit).includes(node)) && {
      variables: [{ name: 'node', expression: claim }],
    }),
    validations: [...validations.values()].map(({ group, resources, of }) => ({
      expression: [isNone(group, resources), ...of.map((limit) => `(${expressionOf(limit)})`)].join(' ||\n'),
      message: `${name} may write of ${resources.join(', ')} only ${of.map(({ what }) => what).join('; or ')}`,
      reason: 'Forbidden',
    })),
  };
  const apiVersion = 'admissionregistration.k8s.io/v1';
  const kind = 'ValidatingAdmissionPolicy';
  const documents = [
    { apiVersion, kind, metadata: { name }, spec },
    {
      apiVersion,
      kind: `${kind}Binding`,
      metadata: { name },
      spec: { policyName: name, validationActions: ['Deny'] },
    },
  ];
  const texts = documents.map((document) =>
    stringify(document, { lineWidth: 0, aliasDuplicateObjects: false }),
  );
  return `# What ${name} may write, beside what RBAC says.\n${texts.join('---\n')}`;
}

function isNone(group: string, resources: readonly string[]): string {
  const plurals = [...new Set(resources.map((resource) => resource.split('/')[0]))];
  const names = `[${plurals.map((plural) => `'${plural}'`).join(', ')}]`;
  return `request.resource.group != '${group}' || !(request.resource.resource in ${names})`;
}

function expressionOf({ allows, written }: WriteLimit): string {
  const parts = [
    allows && `(request.operation == 'DELETE' || ${allows('object')})`,
    allows && `(request.operation == 'CREATE' || ${allows('oldObject')})`,
    written && `(request.operation == 'DELETE' || ${written})`,
  ];
  return parts.filter((part) => part !== undefined).join(' &&\n');
}

function roleYaml({
  name,
  why,
  rules: all,
  aggregates,
  boundTo,
}: NonNullable<GuardRights['roles']>[number]): string {
  const selectors = aggregates?.map((label) => `    - matchLabels:\n        ${label}: 'true'\n`).join('');
  const role = `# ${why}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${name}
${selectors === undefined ? 'rules:\n' : `aggregationRule:\n  clusterRoleSelectors:\n${selectors}`}${all
    .map((right) => comment(right.why) + indented('- ', '  ', fieldsOf(right)))
    .join('')}`;
  if (boundTo === undefined) return role;
  return `${role}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: ${name}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: ${name}
subjects:
  - kind: ServiceAccount
    name: rampart-${boundTo}
    namespace: rampart-system
`;
}

function target(kind: string, name: string, lines: readonly string[]): string {
  return `  - target:
      kind: ${kind}
      name: ${name}
    patch: |-
${indented('      ', '      ', lines.join(''))}`;
}

function rules(kind: 'ClusterRole' | 'Role', who: string, rights: readonly Right[]): string {
  if (rights.length === 0) return '';
  const operations = rights.map(
    (right) => `${comment(right.why)}- op: add\n  path: /rules/-\n  value:\n${under(under(fieldsOf(right)))}`,
  );
  return target(kind, `rampart-${who}`, operations);
}

function fieldsOf({ apiGroups, resources, resourceNames, verbs }: Right): string {
  const list = (words: readonly string[]): string => `[${words.map(scalar).join(', ')}]`;
  const names = resourceNames === undefined ? '' : `resourceNames: ${list(resourceNames)}\n`;
  return `apiGroups: ${list(apiGroups)}\nresources: ${list(resources)}\n${names}verbs: ${list(verbs)}\n`;
}

/** An item more of a list of the only container. */
function value(list: string, item: string): string {
  return `- op: add\n  path: /spec/template/spec/containers/0/${list}/-\n  value: ${scalar(item)}\n`;
}

/** A strategic merge patch: volumes are merged by their names, mounts by their paths. */
function podPatch({ hostPID, hostNetwork, appArmorUnconfined, mounts = [] }: PodNeeds): string {
  const flag = (name: string, why: string | undefined): string =>
    why === undefined ? '' : `${comment(why)}${name}: true\n`;
  const unconfined = (why: string): string => `${comment(why)}appArmorProfile:\n  type: Unconfined\n`;
  const volumeMounts = mounts.map(
    ({ name, mountPath, readOnly, propagation, why }) =>
      `${comment(why)}- name: ${name}\n  mountPath: ${mountPath}\n` +
      (readOnly === true ? '  readOnly: true\n' : '') +
      (propagation === undefined ? '' : `  mountPropagation: ${propagation}\n`),
  );
  const volumes = mounts.map(
    ({ name, hostPath, type }) => `- name: ${name}\n  hostPath:\n    path: ${hostPath}\n    type: ${type}\n`,
  );
  const container =
    (appArmorUnconfined === undefined ? '' : `securityContext:\n${under(unconfined(appArmorUnconfined))}`) +
    (mounts.length === 0 ? '' : `volumeMounts:\n${under(volumeMounts.join(''))}`);
  const spec =
    flag('hostPID', hostPID) +
    flag('hostNetwork', hostNetwork) +
    (hostNetwork === undefined
      ? ''
      : '# Else it would have the DNS of the node, which knows no Services.\ndnsPolicy: ClusterFirstWithHostNet\n') +
    (container === '' ? '' : `containers:\n${indented('  - ', '    ', `name: agent\n${container}`)}`) +
    (mounts.length === 0 ? '' : `volumes:\n${under(volumes.join(''))}`);
  if (spec === '') return '';
  const patch = `apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: rampart-agent
spec:
  template:
    spec:
${indented('      ', '      ', spec)}`;
  return target('DaemonSet', 'rampart-agent', [patch]);
}

function comment(why: string | undefined): string {
  return why === undefined ? '' : `# ${why}\n`;
}

/** YAML 1.1 and 1.2 read other words as they stand here. */
function scalar(text: string): string {
  return /^(?:[A-Za-z]|--)[\w./=-]*[\w]$/.test(text) && !/^(?:y|n|yes|no|on|off|true|false|null)$/i.test(text)
    ? text
    : `'${text.replaceAll("'", "''")}'`;
}

function under(text: string): string {
  return indented('  ', '  ', text);
}

function indented(first: string, others: string, text: string): string {
  return text
    .trimEnd()
    .split('\n')
    .map((line, at) => `${at === 0 ? first : others}${line}\n`)
    .join('');
}
