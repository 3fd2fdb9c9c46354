/**
 * Checks of what a pod is made of, for pods and for templates of them (kubernetes
 * `pkg/apis/core/validation/validation.go`, ValidatePodSpec).
 */
import { labelKeyProblems } from '../../../kube/selectors/label-names.ts';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import type { JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textAt, textsAt, valueAt } from '../../../json/fields.ts';
import {
  addProblems,
  checkAddress,
  checkLabels,
  checkNotNegative,
  checkOptionalName,
  checkSelector,
  checkUnique,
} from './checks.ts';
import { checkContainer, checkHostPorts, checkLifecycle, type PodFacts } from './containers.ts';
import { checkVolumes } from './volumes.ts';

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
