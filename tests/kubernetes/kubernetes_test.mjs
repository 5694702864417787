// The manifests of containers/kubernetes: each object is what Kubernetes' schema of its kind says, has no key that the schema
// does not know, and names only what is there. Prints the configuration in them, and each container's arguments.
//
// usage: node kubernetes_test.mjs MANIFEST
import fs from "node:fs";
import { parseAllDocuments } from "yaml";
import * as apps from "kubernetes-models/apps/v1";
import * as core from "kubernetes-models/v1";
import * as policy from "kubernetes-models/policy/v1";

const groups = { "v1": core, "apps/v1": apps, "policy/v1": policy };

function check(condition, what) {
    if (!condition) throw new Error(what);
}

// The value, which notes every key of it that is never read. What checks against a schema reads the keys that the schema has.
function watched(value, path, unread) {
    if (value === null || typeof value !== "object") return value;
    const seen = new Map();
    if (!Array.isArray(value)) for (const key of Object.keys(value)) unread.add(`${path}.${key}`);
    return new Proxy(value, {
        get(target, key) {
            if (typeof key === "symbol" || !Object.hasOwn(target, key)) return target[key];
            unread.delete(`${path}.${key}`);
            if (!seen.has(key)) seen.set(key, watched(target[key], `${path}.${key}`, unread));
            return seen.get(key);
        },
    });
}

// What is wrong with an object, or nothing.
function mistakes(object) {
    const Kind = groups[object.apiVersion]?.[object.kind];
    if (Kind === undefined) return `no kind ${object.kind} in ${object.apiVersion}`;
    const unread = new Set();
    try {
        // The object as it stands: a Kind that is made of it would leave out what it does not know.
        Kind.prototype.validate.call(watched(object, object.kind, unread));
    } catch (error) {
        return error.message;
    }
    return [...unread].filter((key) => !/\.(apiVersion|kind)$/.test(key)).join(", ") || null;
}

function pods(objects) {
    return objects.filter((object) => object.spec?.template).map((object) => ({ name: object.metadata.name, ...object.spec.template, claims: object.spec.volumeClaimTemplates ?? [], selector: object.spec.selector }));
}

function checkReferences(objects) {
    const named = (kind) => new Set(objects.filter((object) => object.kind === kind).map((object) => object.metadata.name));
    for (const pod of pods(objects)) {
        const volumes = new Set([...pod.spec.volumes, ...pod.claims.map((claim) => claim.metadata)].map((volume) => volume.name));
        for (const container of [...pod.spec.initContainers, ...pod.spec.containers]) {
            for (const mount of container.volumeMounts) check(volumes.has(mount.name), `${pod.name} mounts ${mount.name}, which is no volume`);
            const ports = new Set((container.ports ?? []).map((port) => port.name));
            for (const probe of ["startupProbe", "livenessProbe", "readinessProbe"]) {
                if (container[probe]) check(ports.has(container[probe].httpGet.port), `${pod.name}: ${probe} asks no port of the container`);
            }
        }
        for (const volume of pod.spec.volumes) {
            if (volume.configMap) check(named("ConfigMap").has(volume.configMap.name), `${pod.name}: no ConfigMap ${volume.configMap.name}`);
        }
        for (const [label, value] of Object.entries(pod.selector.matchLabels)) check(pod.metadata.labels[label] === value, `${pod.name} does not select its pods`);
    }
    for (const object of objects.filter((one) => one.kind === "Service" || one.kind === "PodDisruptionBudget")) {
        const wanted = Object.entries(object.spec.selector.matchLabels ?? object.spec.selector);
        check(pods(objects).some((pod) => wanted.every(([label, value]) => pod.metadata.labels[label] === value)), `${object.kind} ${object.metadata.name} selects nothing`);
    }
    for (const object of objects.filter((one) => one.kind === "StatefulSet")) {
        check(named("Service").has(object.spec.serviceName), `${object.metadata.name}: no Service ${object.spec.serviceName}`);
    }
}

// Mistakes that have to be found.
function checkPlanted(object) {
    const changed = (change) => {
        const copy = structuredClone(object);
        change(copy, copy.spec.template.spec.containers[0]);
        return mistakes(copy);
    };
    check(mistakes(object) === null, "a copy has mistakes");
    check(/replicas/.test(changed((copy) => { copy.spec.replicas = "three"; })), "a number that is a word is not found");
    check(/image/.test(changed((_, container) => { container.imagePullpolicy = "Always"; })), "a key that is spelled wrongly is not found");
    check(/readinessProb/.test(changed((_, container) => { container.readinessProb = {}; })), "an unknown key is not found");
}

const documents = parseAllDocuments(fs.readFileSync(process.argv[2], "utf8"));
for (const document of documents) check(document.errors.length === 0, `no YAML: ${document.errors}`);
const objects = documents.map((document) => document.toJS());
for (const object of objects) {
    const found = mistakes(object);
    check(found === null, `${object.kind} ${object.metadata.name}: ${found}`);
}
checkReferences(objects);
checkPlanted(objects.find((object) => object.kind === "StatefulSet"));
const config = objects.find((object) => object.kind === "ConfigMap").data["helix.toml"];
const containers = pods(objects).flatMap((pod) => pod.spec.containers.map((container) => ({ name: container.name, args: container.args })));
console.log(JSON.stringify({ kinds: objects.map((object) => object.kind), config, containers }));
