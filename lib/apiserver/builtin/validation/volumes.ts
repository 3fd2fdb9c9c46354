/** Checks of volumes (kubernetes `pkg/apis/core/validation/validation.go`, ValidateVolumes). */
import { fieldError, type Cause } from '../../schema/field-error.ts';
import { isObject, type JsonObject } from '../../../json/json.ts';
import { numberAt, objectAt, objectsAt, textAt, valueAt } from '../../../json/fields.ts';
import { checkName, checkUnique } from './checks.ts';

/** Texts without which a source is none, beside those that the schema requires. */
const requiredTexts: Readonly<Record<string, readonly string[]>> = {
  configMap: ['name'],
  csi: ['driver'],
  hostPath: ['path'],
  nfs: ['server', 'path'],
  persistentVolumeClaim: ['claimName'],
  secret: ['secretName'],
};

/** Sources with modes of files. */
const sourcesOfFiles = ['configMap', 'downwardAPI', 'projected', 'secret'];

/** Checks volumes, and tells their names. */
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

/** Fields that are missing where the schema requires them are told by the schema. */
function isSchemaRequired(type: string, field: string, source: JsonObject): boolean {
  return valueAt(source, field) === undefined && !(type === 'configMap' || type === 'secret');
}

function checkMode(object: JsonObject, field: string, path: string, causes: Cause[]): void {
  const mode = numberAt(object, field);
  if (mode === undefined || (mode >= 0 && mode <= 0o777)) return;
  const words = 'must be a number between 0 and 0777 (octal), both inclusive';
  causes.push(fieldError.invalid(`${path}.${field}`, mode, words));
}
