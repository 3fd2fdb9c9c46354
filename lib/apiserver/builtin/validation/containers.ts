/** Checks of containers (kubernetes `pkg/apis/core/validation/validation.go`, validateContainers). */
import { fieldError, type Cause } from '../../schema/field-error.ts';
import type { JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textAt, textOf, valueAt } from '../../../json/fields.ts';
import { parseQuantity } from '../quantities.ts';
import {
  addProblems,
  checkName,
  checkNotNegative,
  checkPort,
  checkPortOrName,
  checkUnique,
  notFound,
  notNegative,
  portNameProblems,
} from './checks.ts';

export interface PodFacts {
  readonly volumes: ReadonlySet<string>;
  readonly hostNetwork: boolean;
}

export function checkContainer(container: JsonObject, path: string, pod: PodFacts, causes: Cause[]): void {
  const name = textAt(container, 'name');
  if (valueAt(container, 'name') !== undefined) checkName('dns-label', name, `${path}.name`, causes);
  checkImage(container, path, causes);
  checkPorts(container, path, pod, causes);
  checkEnvironment(container, path, causes);
  checkMounts(container, path, pod, causes);
  checkResources(objectAt(container, 'resources'), `${path}.resources`, causes);
  checkSecurity(objectAt(container, 'securityContext'), `${path}.securityContext`, causes);
}

function checkImage(container: JsonObject, path: string, causes: Cause[]): void {
  const image = textAt(container, 'image');
  if (image === '') causes.push(fieldError.required(`${path}.image`));
  else if (image !== image.trim()) {
    const words = 'must not have leading or trailing whitespace';
    causes.push(fieldError.invalid(`${path}.image`, image, words));
  }
}

function checkPorts(container: JsonObject, path: string, { hostNetwork }: PodFacts, causes: Cause[]): void {
  const ports = objectsAt(container, 'ports');
  for (const [index, port] of ports.entries()) {
    const at = `${path}.ports[${index}]`;
    const [number, hostPort] = [numberAt(port, 'containerPort'), numberAt(port, 'hostPort')];
    const name = textAt(port, 'name');
    if (name !== '') addProblems(portNameProblems(name), name, `${at}.name`, causes);
    if (number === 0) causes.push(fieldError.required(`${at}.containerPort`));
    else checkPort(number, `${at}.containerPort`, causes);
    if (hostPort !== 0) checkPort(hostPort, `${at}.hostPort`, causes);
    if (hostNetwork && hostPort !== undefined && hostPort !== number) {
      const words = 'must match `hostPort` when `hostNetwork` is true';
      causes.push(fieldError.invalid(`${at}.containerPort`, number ?? 0, words));
    }
  }
  const names = ports.map((port) => textAt(port, 'name'));
  checkUnique(names, (index) => `${path}.ports[${index}].name`, causes);
}

/** A pod may use each host port only once (kubernetes AccumulateUniqueHostPorts). */
export function checkHostPorts(
  lists: readonly (readonly [string, readonly JsonObject[]])[],
  causes: Cause[],
): void {
  const seen = new Set<string>();
  for (const [path, containers] of lists) {
    for (const [index, container] of containers.entries()) {
      for (const [position, port] of objectsAt(container, 'ports').entries()) {
        const hostPort = numberAt(port, 'hostPort') ?? 0;
        if (hostPort === 0) continue;
        const taken = `${textAt(port, 'protocol')}/${textAt(port, 'hostIP')}/${hostPort}`;
        if (seen.has(taken)) {
          causes.push(fieldError.duplicate(`${path}[${index}].ports[${position}].hostPort`, taken));
        }
        seen.add(taken);
      }
    }
  }
}

const sources = ['fieldRef', 'resourceFieldRef', 'configMapKeyRef', 'secretKeyRef', 'fileKeyRef'];

function checkEnvironment(container: JsonObject, path: string, causes: Cause[]): void {
  for (const [index, variable] of objectsAt(container, 'env').entries()) {
    const at = `${path}.env[${index}]`;
    const name = valueAt(variable, 'name');
    if (name === '') causes.push(fieldError.required(`${at}.name`));
    else if (typeof name === 'string' && !/^[ -<>-~]+$/.test(name)) {
      const words =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
      causes.push(fieldError.invalid(`${at}.name`, name, words));
    }
    const from = valueAt(variable, 'valueFrom');
    if (from === undefined) continue;
    const given = sources.filter((source) => valueAt(from, source) !== undefined);
    if (textAt(variable, 'value') !== '') {
      const words = 'may not be specified when `value` is not empty';
      causes.push(fieldError.invalid(`${at}.valueFrom`, '', words));
    } else if (given.length === 0) {
      const words = `must specify one of: \`fieldRef\`, \`resourceFieldRef\`, \`configMapKeyRef\`, \`secretKeyRef\` or \`fileKeyRef\``;
      causes.push(fieldError.invalid(`${at}.valueFrom`, '', words));
    } else if (given.length > 1) {
      const words = 'may not have more than one field specified at a time';
      causes.push(fieldError.invalid(`${at}.valueFrom`, '', words));
    }
  }
}

function checkMounts(container: JsonObject, path: string, { volumes }: PodFacts, causes: Cause[]): void {
  const paths = new Set<string>();
  for (const [index, mount] of objectsAt(container, 'volumeMounts').entries()) {
    const at = `${path}.volumeMounts[${index}]`;
    const [name, mountPath] = [valueAt(mount, 'name'), valueAt(mount, 'mountPath')];
    if (name === '') causes.push(fieldError.required(`${at}.name`));
    else if (typeof name === 'string' && !volumes.has(name)) causes.push(notFound(`${at}.name`, name));
    if (mountPath === '') causes.push(fieldError.required(`${at}.mountPath`));
    else if (typeof mountPath === 'string') {
      if (paths.has(mountPath)) {
        causes.push(fieldError.invalid(`${at}.mountPath`, mountPath, 'must be unique'));
      }
      paths.add(mountPath);
    }
    const subPath = textAt(mount, 'subPath');
    if (subPath.startsWith('/')) {
      causes.push(fieldError.invalid(`${at}.subPath`, subPath, 'must be a relative path'));
    } else if (subPath.split('/').includes('..')) {
      causes.push(fieldError.invalid(`${at}.subPath`, subPath, "must not contain '..'"));
    }
  }
}

/** Amounts must not be negative, and requests must not exceed limits. */
function checkResources(resources: JsonObject, path: string, causes: Cause[]): void {
  const [limits, requests] = [objectAt(resources, 'limits'), objectAt(resources, 'requests')];
  for (const [part, amounts] of Object.entries({ limits, requests })) {
    for (const [name, value] of Object.entries(amounts)) {
      if ((parseQuantity(value)?.nanos ?? 0n) < 0n) {
        causes.push(fieldError.invalid(`${path}.${part}[${name}]`, textOf(value), notNegative));
      }
    }
  }
  for (const [name, value] of Object.entries(requests)) {
    const [request, limit] = [parseQuantity(value), parseQuantity(limits[name])];
    if (request === undefined || limit === undefined || request.nanos <= limit.nanos) continue;
    const words = `must be less than or equal to ${name} limit of ${textOf(limits[name])}`;
    causes.push(fieldError.invalid(`${path}.requests`, textOf(value), words));
  }
}

function checkSecurity(context: JsonObject, path: string, causes: Cause[]): void {
  checkNotNegative(context, ['runAsUser', 'runAsGroup'], path, causes);
  if (valueAt(context, 'allowPrivilegeEscalation') !== false) return;
  if (valueAt(context, 'privileged') === true) {
    const words = 'cannot set `allowPrivilegeEscalation` to false and `privileged` to true';
    causes.push(fieldError.invalid(path, context, words));
  }
}

const probes = ['livenessProbe', 'readinessProbe', 'startupProbe'] as const;
const handlers = ['exec', 'httpGet', 'tcpSocket', 'grpc'];
const hooks = [...handlers, 'sleep'];

/** Probes and hooks, which only containers that keep running may have. */
export function checkLifecycle(container: JsonObject, path: string, causes: Cause[]): void {
  for (const hook of ['postStart', 'preStop']) {
    const handler = valueAt(container, 'lifecycle', hook);
    if (handler !== undefined) checkHandler(objectAt(handler), `${path}.lifecycle.${hook}`, hooks, causes);
  }
  for (const field of probes) {
    const probe = valueAt(container, field);
    if (probe === undefined) continue;
    const at = `${path}.${field}`;
    checkHandler(objectAt(probe), at, handlers, causes);
    const numbers = [
      'initialDelaySeconds',
      'timeoutSeconds',
      'periodSeconds',
      'successThreshold',
      'failureThreshold',
    ];
    checkNotNegative(objectAt(probe), numbers, at, causes);
    const successes = numberAt(probe, 'successThreshold') ?? 1;
    if (field !== 'readinessProbe' && successes > 1) {
      causes.push(fieldError.invalid(`${at}.successThreshold`, successes, 'must be 1'));
    }
  }
}

function checkHandler(handler: JsonObject, path: string, allowed: readonly string[], causes: Cause[]): void {
  const given = allowed.filter((type) => valueAt(handler, type) !== undefined);
  if (given.length === 0) causes.push(fieldError.required(path, 'must specify a handler type'));
  for (const type of given.slice(1)) {
    causes.push(fieldError.forbidden(`${path}.${type}`, 'may not specify more than 1 handler type'));
  }
  const exec = valueAt(handler, 'exec');
  if (exec !== undefined && objectsAt(exec, 'command').length === 0) {
    causes.push(fieldError.required(`${path}.exec.command`));
  }
  for (const type of ['httpGet', 'tcpSocket', 'grpc']) {
    checkPortOrName(valueAt(handler, type, 'port'), `${path}.${type}.port`, causes);
  }
}
