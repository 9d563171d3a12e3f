"""The manifests of `deploy/kubernetes` are what Kubernetes takes, and fit each other, the image and the settings.

They are checked against its own description, which the models of its client for Python are made of. An API server
refuses what is refused here: unknown fields, missing ones, and values of another type.
"""

import re
from pathlib import Path

import pytest
import yaml
from kubernetes import client
from pydantic import ValidationError

from schemas.settings.backup_times import BackupTimes
from schemas.settings.known import known_settings

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "deploy" / "kubernetes"
KUSTOMIZATIONS = sorted(FOLDER.glob("*/kustomization.yaml"))
MANIFESTS = sorted(set(FOLDER.glob("*/*.yaml")) - set(KUSTOMIZATIONS))
OTHERS = {"ServiceMonitor"}
"""Kinds that Kubernetes itself does not have."""


def manifests_in(file: Path) -> list[dict]:
    return [each for each in yaml.safe_load_all(file.read_text()) if each is not None]


def faults_of(manifest: dict) -> list[str]:
    """Return a sentence for each fault of a manifest, for kinds of Kubernetes itself."""
    version = manifest["apiVersion"].rpartition("/")[2]
    model = getattr(client, f"{version.title()}{manifest['kind']}", None)
    if model is None:
        return [f"Kubernetes has no {manifest['kind']} in {manifest['apiVersion']}"]
    try:
        model.model_validate(manifest, strict=True)
    except ValidationError as error:
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return []


def kustomization(room):
    return yaml.safe_load((FOLDER / room / "kustomization.yaml").read_text())


def found(room, kind):
    """Return the manifests of a kind in a room, by name."""
    each = [each for file in MANIFESTS if file.parent.name == room for each in manifests_in(file)]
    return {manifest["metadata"]["name"]: manifest for manifest in each if manifest["kind"] == kind}


def pods(room):
    [stateful] = found(room, "StatefulSet").values()
    return stateful["spec"]["template"]


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_kubernetes_takes_every_manifest(file):
    manifests = [each for each in manifests_in(file) if each["kind"] not in OTHERS]
    assert [fault for each in manifests for fault in faults_of(each)] == []
    assert manifests or file.parent.name == "monitoring"


def test_kinds_that_there_are_not_are_found_and_chroma_is_the_one_that_the_service_is_made_for():
    assert faults_of({"apiVersion": "apps/v1", "kind": "StatefullSet"}) == ["Kubernetes has no StatefullSet in apps/v1"]
    compose = yaml.safe_load((PROJECT / "compose.yaml").read_text())
    assert pods("chroma")["spec"]["containers"][0]["image"] == compose["services"]["chroma"]["image"]


@pytest.mark.parametrize("file", KUSTOMIZATIONS, ids=lambda file: file.parent.name)
def test_every_manifest_is_listed_and_there(file):
    told = yaml.safe_load(file.read_text())
    listed = [*told["resources"], *(each["path"] for each in told.get("patches", ()))]
    assert [name for name in listed if not (file.parent / name).exists()] == []
    beside = {path.name for path in file.parent.glob("*.yaml")} - {"kustomization.yaml", "rag.yaml"}
    assert beside == {name for name in listed if "/" not in name}
    for name in listed:
        if "/" in name:
            assert (file.parent / name / "kustomization.yaml").exists()


def test_what_the_example_changes_is_there():
    example = kustomization("example")
    containers = {each["image"] for room in ("base", "chroma") for each in pods(room)["spec"]["containers"]}
    assert {each["name"] for each in example["images"]} <= containers
    assert {each["name"] for each in example["replicas"]} <= set(found("base", "StatefulSet"))
    for each in example["patches"]:
        [patch] = manifests_in(FOLDER / "example" / each["path"])
        assert patch["metadata"]["name"] in found("base", patch["kind"])
    generated = {each["name"] for each in kustomization("base")["configMapGenerator"]}
    assert {each["name"] for each in example["configMapGenerator"]} == generated


@pytest.mark.parametrize("room", ["base", "chroma"])
def test_selectors_choose_the_pods(room):
    labels = pods(room)["metadata"]["labels"]
    [stateful] = found(room, "StatefulSet").values()
    selectors = [stateful["spec"]["selector"]["matchLabels"]]
    selectors += [
        each["labelSelector"]["matchLabels"] for each in pods(room)["spec"].get("topologySpreadConstraints", ())
    ]
    selectors += [each["spec"]["selector"] for each in found(room, "Service").values()]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in found(room, "PodDisruptionBudget").values()]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in found(room, "NetworkPolicy").values()]
    assert len(selectors) >= 3
    assert [each for each in selectors if not each or not each.items() <= labels.items()] == []
    assert stateful["spec"]["serviceName"] in found(room, "Service")


def test_only_the_services_reach_chroma_and_prometheus_is_let_in_from_its_own_namespace():
    [policy] = found("chroma", "NetworkPolicy").values()
    [way_in] = policy["spec"]["ingress"]
    assert way_in["from"] == [{"podSelector": {"matchLabels": pods("base")["metadata"]["labels"]}}]
    assert (policy["spec"]["egress"], policy["spec"]["policyTypes"]) == ([], ["Ingress", "Egress"])
    [policy] = found("monitoring", "NetworkPolicy").values()
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pods("base")["metadata"]["labels"].items()
    assert policy["spec"]["policyTypes"] == ["Ingress"], "what may be called is the base's"
    [way_in] = policy["spec"]["ingress"]
    [whom] = way_in["from"]
    name = whom["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
    assert f"the namespace `{name}`" in (PROJECT / "docs" / "deploy.md").read_text()
    container = container_of("base")
    assert {each["port"] for each in way_in["ports"]} <= {each["name"] for each in container["ports"]}
    assert policy["metadata"]["name"] not in found("base", "NetworkPolicy"), "it would take the place of that one"


def container_of(room):
    [container] = pods(room)["spec"]["containers"]
    return container


@pytest.mark.parametrize("room", ["base", "chroma"])
def test_ports_are_named_as_the_container_names_them_and_what_is_mounted_is_there(room):
    container = container_of(room)
    named = {each["name"] for each in container["ports"]}
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    used = {container[probe]["httpGet"]["port"] for probe in probes}
    used |= {port["targetPort"] for each in found(room, "Service").values() for port in each["spec"]["ports"]}
    used |= {
        port["port"]
        for each in found(room, "NetworkPolicy").values()
        for way_in in each["spec"]["ingress"]
        for port in way_in["ports"]
    }
    assert used == named
    [stateful] = found(room, "StatefulSet").values()
    volumes = {each["name"] for each in pods(room)["spec"]["volumes"]}
    volumes |= {each["metadata"]["name"] for each in stateful["spec"]["volumeClaimTemplates"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    assert {each["mountPath"] for each in container["volumeMounts"]} >= {"/data", "/tmp"}


def test_the_ingress_and_the_monitor_lead_to_the_service():
    [ingress] = found("example", "Ingress").values()
    [rule] = ingress["spec"]["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    service = found("base", "Service")[backend["name"]]
    assert backend["port"]["name"] in {each["name"] for each in service["spec"]["ports"]}
    [monitor] = found("monitoring", "ServiceMonitor").values()
    chosen = monitor["spec"]["selector"]["matchLabels"]
    watched = [
        each
        for each in found("base", "Service").values()
        if chosen.items() <= each["metadata"].get("labels", {}).items()
    ]
    assert watched == [service], "each pod is watched once"


def test_what_is_named_is_generated_and_every_replica_makes_backups_in_a_volume_of_its_own():
    pod = pods("base")["spec"]
    [container] = pod["containers"]
    maps = {each["configMapRef"]["name"] for each in container["envFrom"]}
    assert maps == {each["name"] for each in kustomization("base")["configMapGenerator"]}
    secrets = {each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
    [generated] = kustomization("example")["secretGenerator"]
    assert secrets == {generated["name"]}
    [file] = generated["files"]
    [mounted] = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "secrets"]
    assert container["args"] == ["serve", "--config", f"{mounted}/{file}"]
    assert (FOLDER / "example" / f"{file}.example").exists()
    assert pod["serviceAccountName"] in found("base", "ServiceAccount")
    [generator] = kustomization("base")["configMapGenerator"]
    given = dict(literal.split("=", 1) for literal in generator["literals"])
    assert BackupTimes.parse(given["RAG_BACKUP_EVERY"])
    container = container_of("base")
    [mounted] = [each for each in container["volumeMounts"] if each["mountPath"] == given["RAG_BACKUP_DIR"]]
    [stateful] = found("base", "StatefulSet").values()
    assert mounted["name"] in {each["metadata"]["name"] for each in stateful["spec"]["volumeClaimTemplates"]}


def test_a_start_has_as_long_as_the_image_says_and_pods_run_as_its_user_and_stop_as_slowly_as_the_service():
    container = container_of("base")
    probe = container["startupProbe"]
    minutes = int(re.search(r"--start-period=(\d+)m ", (PROJECT / "Dockerfile").read_text())[1])
    assert probe["periodSeconds"] * probe["failureThreshold"] == minutes * 60 == 1200, "docs/deploy.md says so"
    pod = pods("base")["spec"]
    user, group = re.search(r"^USER (\d+):(\d+)$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE).groups()
    context = pod["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (int(user), int(group), int(group))
    compose = yaml.safe_load((PROJECT / "compose.yaml").read_text())
    assert f"{pod['terminationGracePeriodSeconds']}s" == compose["services"]["rag-wrapper"]["stop_grace_period"]


def test_settings_are_settings_of_the_service():
    given = [
        literal.partition("=")[0]
        for room in ("base", "example")
        for generator in kustomization(room)["configMapGenerator"]
        for literal in generator["literals"]
    ]
    example = yaml.safe_load((FOLDER / "example" / "rag.yaml.example").read_text())
    given += [f"RAG_{name.upper()}" for name in example]
    assert set(given) <= set(known_settings())
    assert {"RAG_SECRET_KEY", "RAG_CATALOG_URL"} <= set(given), "replicas share them"


@pytest.mark.parametrize("room", ["base", "chroma"])
def test_pods_run_without_any_right_that_they_do_not_need(room):
    pod = pods(room)["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False, "its variables would be taken for settings"
    assert set(container["resources"]["limits"]) == {"memory"}
