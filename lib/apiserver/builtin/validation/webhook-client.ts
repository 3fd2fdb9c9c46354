/**
 * Checks of a webhook's address and of the review versions that it accepts (apiserver `pkg/util/webhook/validation.go`,
 * kubernetes `pkg/apis/admissionregistration/validation/validation.go`).
 */
import { numberAt, objectAt, textAt, textsAt, valueAt } from '../../../json/fields.ts';
import type { JsonObject } from '../../../json/json.ts';
import { nameProblems } from '../../resources/object-names.ts';
import { fieldError, type Cause } from '../../schema/field-error.ts';
import { addProblems, checkBase64Text } from './checks.ts';

export function checkReviewVersions(webhook: JsonObject, path: string, causes: Cause[]): void {
  const versions = textsAt(webhook, 'admissionReviewVersions');
  const at = `${path}.admissionReviewVersions`;
  if (valueAt(webhook, 'admissionReviewVersions') === undefined) return;
  if (versions.length === 0) {
    causes.push(fieldError.required(at, 'must specify one of v1, v1beta1'));
    return;
  }
  versions.forEach((version, index) => {
    const own = `${at}[${index}]`;
    if (versions.indexOf(version) < index) causes.push(fieldError.invalid(own, version, 'duplicate version'));
    else addProblems(nameProblems('dns1035-label', version), version, own, causes);
  });
  if (!versions.includes('v1') && !versions.includes('v1beta1')) {
    causes.push(fieldError.invalid(at, versions, 'must include at least one of v1, v1beta1'));
  }
}

export function checkClient(webhook: JsonObject, path: string, causes: Cause[]): void {
  const client = valueAt(webhook, 'clientConfig');
  if (client === undefined) return;
  const at = `${path}.clientConfig`;
  const [url, service] = [valueAt(client, 'url'), valueAt(client, 'service')];
  if ((url === undefined) === (service === undefined)) {
    causes.push(fieldError.required(at, 'exactly one of url or service is required'));
  } else if (url === undefined) checkService(objectAt(client, 'service'), `${at}.service`, causes);
  else checkUrl(textAt(client, 'url'), `${at}.url`, causes);
  checkBase64Text(textAt(client, 'caBundle'), `${at}.caBundle`, causes);
}

const form = '; desired format: https://host[/path]';

function checkUrl(url: string, path: string, causes: Cause[]): void {
  const [, scheme = '', authority = '', query = '', fragment = ''] =
    /^(?:([a-z][a-z0-9+.-]*):)?(?:\/\/([^/?#]*))?[^?#]*(?:\?([^#]*))?(?:#(.*))?$/is.exec(url) ?? [];
  const at = authority.lastIndexOf('@');
  const host = authority.slice(at + 1);
  const refuse = (value: string, words: string): void => {
    causes.push(fieldError.invalid(path, value, words));
  };
  if (scheme.toLowerCase() !== 'https')
    refuse(scheme.toLowerCase(), `'https' is the only allowed URL scheme${form}`);
  if (host === '') refuse(host, `host must be specified${form}`);
  if (at >= 0) refuse(authority.slice(0, at), 'user information is not permitted in the URL');
  if (fragment !== '') refuse(fragment, 'fragments are not permitted in the URL');
  if (query !== '') refuse(query, 'query parameters are not permitted in the URL');
}

function checkService(service: JsonObject, at: string, causes: Cause[]): void {
  for (const field of ['name', 'namespace']) {
    if (valueAt(service, field) === '') causes.push(fieldError.required(`${at}.${field}`));
  }
  const port = numberAt(service, 'port');
  if (port !== undefined && (port < 1 || port > 65_535)) {
    const words = 'port is not valid: must be between 1 and 65535, inclusive';
    causes.push(fieldError.invalid(`${at}.port`, port, words));
  }
  checkPath(textAt(service, 'path'), `${at}.path`, causes);
}

function checkPath(path: string, at: string, causes: Cause[]): void {
  if (path === '' || path === '/') return;
  const refuse = (words: string): void => {
    causes.push(fieldError.invalid(at, path, words));
  };
  if (!path.startsWith('/')) refuse("must start with a '/'");
  const segments = path === '//' ? [''] : path.slice(1).replace(/\/$/, '').split('/');
  segments.forEach((segment, index) => {
    if (segment === '') refuse(`segment[${index}] may not be empty`);
    else for (const why of nameProblems('dns-subdomain', segment)) refuse(`segment[${index}]: ${why}`);
  });
}
