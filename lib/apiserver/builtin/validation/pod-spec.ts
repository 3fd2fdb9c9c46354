/**
 * Checks of a pod's spec, for pods and pod templates (kubernetes `pkg/apis/core/validation/validation.go`,
 * ValidatePodSpec).
 */
import { labelKeyProblems } from '../../../kube/selectors/label-names.ts';
import { type Cause, fieldError } from '../../schema/field-error.ts';
import { isObject, type JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textAt, textsAt, valueAt } from '../../../json/fields.ts';
import {
  addProblems,
  checkAddress,
  checkLabels,
  checkName,
  checkNotNegative,
  checkOptionalName,
  checkSelector,
  checkUnique,
} from './checks.ts';
import { checkContainer, checkHostPorts, checkLifecycle, type PodFacts } from './containers.ts';

const maxInt32 = 2 ** 31 - 1;

export function checkPodSpec(spec: JsonObject, path: string, causes: Cause[]): void {
  const volumes = checkVolumes(spec, path, causes);
  checkContainers(spec, path, { volumes, hostNetwork: valueAt(spec, 'hostNetwork') === true }, causes);
  checkNotNegative(spec, ['terminationGracePeriodSeconds'], path, causes);
  const deadline = numberAt(spec, 'activeDeadlineSeconds');
  if (deadline !== undefined && (deadline < 1 || deadline > maxInt32)) {
    const words = `must be between 1 and ${maxInt32}, inclusive`;
    causes.push(fieldError.invalid(`${path}.activeDeadlineSeconds`, deadline, words));
  }
  checkLabels(objectAt(spec, 'nodeSelector'), `${path}.nodeSelector`, causes);
  for (const field of ['serviceAccountName', 'nodeName', 'priorityClassName', 'runtimeClassName']) {
    checkOptionalName('dns-subdomain', textAt(spec, field), `${path}.${field}`, causes);
  }
  checkOptionalName('dns-label', textAt(spec, 'hostname'), `${path}.hostname`, causes);
  checkOptionalName('dns-label', textAt(spec, 'subdomain'), `${path}.subdomain`, causes);
  checkNetwork(spec, path, causes);
  checkTolerations(spec, path, causes);
  checkSpread(spec, path, causes);
  checkNotNegative(
    objectAt(spec, 'securityContext'),
    ['runAsUser', 'runAsGroup', 'fsGroup'],
    `${path}.securityContext`,
    causes,
  );
}

function checkContainers(spec: JsonObject, path: string, pod: PodFacts, causes: Cause[]): void {
  const containers = objectsAt(spec, 'containers');
  const inits = objectsAt(spec, 'initContainers');
  const ephemerals = objectsAt(spec, 'ephemeralContainers');
  if (Array.isArray(valueAt(spec, 'containers')) && containers.length === 0) {
    causes.push(fieldError.required(`${path}.containers`));
  }
  const names = new Set<string>();
  const lists = [
    ['containers', containers],
    ['initContainers', inits],
    ['ephemeralContainers', ephemerals],
  ] as const;
  for (const [field, list] of lists) {
    for (const [index, container] of list.entries()) {
      const at = `${path}.${field}[${index}]`;
      checkContainer(container, at, pod, causes);
      const stays = field === 'containers' || textAt(container, 'restartPolicy') === 'Always';
      if (stays) checkLifecycle(container, at, causes);
      else refuseLifecycle(container, field, at, causes);
    }
    const ownNames = list.map((container) => textAt(container, 'name'));
    checkUnique(ownNames, (index) => `${path}.${field}[${index}].name`, causes, names);
  }
  checkHostPorts([[`${path}.containers`, containers]], causes);
}

const probes = ['livenessProbe', 'readinessProbe', 'startupProbe', 'lifecycle'];

function refuseLifecycle(container: JsonObject, field: string, path: string, causes: Cause[]): void {
  const words =
    field === 'initContainers'
      ? 'may not be set for init containers without restartPolicy=Always'
      : 'cannot be set for an Ephemeral Container';
  for (const probe of probes) {
    if (valueAt(container, probe) !== undefined) causes.push(fieldError.forbidden(`${path}.${probe}`, words));
  }
}

function checkNetwork(spec: JsonObject, path: string, causes: Cause[]): void {
  for (const [index, alias] of objectsAt(spec, 'hostAliases').entries()) {
    const address = textAt(alias, 'ip');
    if (address !== '') checkAddress(address, `${path}.hostAliases[${index}].ip`, causes);
    for (const [position, name] of textsAt(alias, 'hostnames').entries()) {
      const at = `${path}.hostAliases[${index}].hostnames[${position}]`;
      checkOptionalName('dns-subdomain', name, at, causes);
    }
  }
  const servers = textsAt(spec, 'dnsConfig', 'nameservers');
  for (const [index, server] of servers.entries()) {
    checkAddress(server, `${path}.dnsConfig.nameservers[${index}]`, causes);
  }
  if (textAt(spec, 'dnsPolicy') !== 'None') return;
  if (valueAt(spec, 'dnsConfig') === undefined) {
    const words = 'must provide `dnsConfig` when `dnsPolicy` is None';
    causes.push(fieldError.required(`${path}.dnsConfig`, words));
  } else if (servers.length === 0) {
    const words = 'must provide at least one DNS nameserver when `dnsPolicy` is None';
    causes.push(fieldError.required(`${path}.dnsConfig.nameservers`, words));
  }
}

const effects = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

function checkTolerations(spec: JsonObject, path: string, causes: Cause[]): void {
  for (const [index, toleration] of objectsAt(spec, 'tolerations').entries()) {
    const at = `${path}.tolerations[${index}]`;
    const [key, operator, effect] = ['key', 'operator', 'effect'].map((field) => textAt(toleration, field));
    if (key) addProblems(labelKeyProblems(key), key, `${at}.key`, causes);
    if (!key && operator !== 'Exists') {
      const words =
        'operator must be Exists when `key` is empty, which means "match all values and all keys"';
      causes.push(fieldError.invalid(`${at}.operator`, operator, words));
    }
    if (operator === 'Exists' && textAt(toleration, 'value') !== '') {
      const words = "value must be empty when `operator` is 'Exists'";
      causes.push(fieldError.invalid(`${at}.operator`, toleration, words));
    }
    if (operator && operator !== 'Exists' && operator !== 'Equal') {
      causes.push(fieldError.notSupported(`${at}.operator`, operator, ['Equal', 'Exists']));
    }
    if (effect && !effects.includes(effect)) {
      causes.push(fieldError.notSupported(`${at}.effect`, effect, effects));
    }
    if (valueAt(toleration, 'tolerationSeconds') !== undefined && effect !== 'NoExecute') {
      const words = "effect must be 'NoExecute' when `tolerationSeconds` is set";
      causes.push(fieldError.invalid(`${at}.effect`, effect, words));
    }
  }
}

function checkSpread(spec: JsonObject, path: string, causes: Cause[]): void {
  for (const [index, constraint] of objectsAt(spec, 'topologySpreadConstraints').entries()) {
    const at = `${path}.topologySpreadConstraints[${index}]`;
    const skew = numberAt(constraint, 'maxSkew');
    if (skew !== undefined && skew <= 0) {
      causes.push(fieldError.invalid(`${at}.maxSkew`, skew, 'must be greater than zero'));
    }
    if (textAt(constraint, 'topologyKey') === '' && valueAt(constraint, 'topologyKey') !== undefined) {
      causes.push(fieldError.required(`${at}.topologyKey`, 'can not be empty'));
    }
    checkSelector(objectAt(constraint, 'labelSelector'), `${at}.labelSelector`, causes);
  }
}

/** Text fields that a volume source requires, besides those that the schema requires. */
const requiredTexts: Readonly<Record<string, readonly string[]>> = {
  configMap: ['name'],
  csi: ['driver'],
  hostPath: ['path'],
  nfs: ['server', 'path'],
  persistentVolumeClaim: ['claimName'],
  secret: ['secretName'],
};

/** Volume sources that set file modes. */
const sourcesOfFiles = ['configMap', 'downwardAPI', 'projected', 'secret'];

/** Checks volumes, and returns their names. */
export function checkVolumes(spec: JsonObject, path: string, causes: Cause[]): Set<string> {
  const volumes = objectsAt(spec, 'volumes');
  const names = volumes.map((volume) => textAt(volume, 'name'));
  for (const [index, volume] of volumes.entries()) {
    const at = `${path}.volumes[${index}]`;
    if (valueAt(volume, 'name') !== undefined)
      checkName('dns-label', names[index] ?? '', `${at}.name`, causes);
    const sources = Object.keys(volume).filter((field) => field !== 'name' && isObject(volume[field]));
    for (const source of sources.slice(1)) {
      causes.push(fieldError.forbidden(`${at}.${source}`, 'may not specify more than 1 volume type'));
    }
    for (const source of sources) checkSource(source, objectAt(volume, source), `${at}.${source}`, causes);
  }
  checkUnique(names, (index) => `${path}.volumes[${index}].name`, causes);
  return new Set(names.filter((name) => name !== ''));
}

function checkSource(type: string, source: JsonObject, path: string, causes: Cause[]): void {
  for (const field of requiredTexts[type] ?? []) {
    if ((valueAt(source, field) ?? '') === '' && !isSchemaRequired(type, field, source)) {
      causes.push(fieldError.required(`${path}.${field}`));
    }
  }
  if (type === 'nfs' && !textAt(source, 'path').startsWith('/') && textAt(source, 'path') !== '') {
    causes.push(fieldError.invalid(`${path}.path`, textAt(source, 'path'), 'must be an absolute path'));
  }
  if (type === 'hostPath' && textAt(source, 'path').split('/').includes('..')) {
    causes.push(fieldError.invalid(`${path}.path`, textAt(source, 'path'), "must not contain '..'"));
  }
  if (!sourcesOfFiles.includes(type)) return;
  checkMode(source, 'defaultMode', path, causes);
  for (const [index, item] of objectsAt(source, 'items').entries()) {
    checkMode(item, 'mode', `${path}.items[${index}]`, causes);
    const target = textAt(item, 'path');
    if (target.startsWith('/')) {
      causes.push(fieldError.invalid(`${path}.items[${index}].path`, target, 'must be a relative path'));
    } else if (target.split('/').includes('..')) {
      causes.push(fieldError.invalid(`${path}.items[${index}].path`, target, "must not contain '..'"));
    }
  }
}

/** Whether the schema already reports the field if it is missing. */
function isSchemaRequired(type: string, field: string, source: JsonObject): boolean {
  return valueAt(source, field) === undefined && !(type === 'configMap' || type === 'secret');
}

function checkMode(object: JsonObject, field: string, path: string, causes: Cause[]): void {
  const mode = numberAt(object, field);
  if (mode === undefined || (mode >= 0 && mode <= 0o777)) return;
  const words = 'must be a number between 0 and 0777 (octal), both inclusive';
  causes.push(fieldError.invalid(`${path}.${field}`, mode, words));
}
