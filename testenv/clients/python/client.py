"""client.py KUBECONFIG POD: drives the Python client of Kubernetes, and prints a line for each thing that it did."""
import json, sys

from kubernetes import client, config, watch
from kubernetes.stream import stream

NAMESPACE = "default"


def main(kubeconfig, pod):
    config.load_kube_config(kubeconfig)
    core = client.CoreV1Api()
    name = f"python-{pod}"
    print("list", len(core.list_namespaced_pod(NAMESPACE, field_selector=f"metadata.name={pod}").items))
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"made-by": name}), data={"key": "value"})
    core.create_namespaced_config_map(NAMESPACE, body)
    print("create")
    core.patch_namespaced_config_map(name, NAMESPACE, {"data": {"key": "other"}})
    print("patch")
    core.delete_namespaced_config_map(name, NAMESPACE)
    print("delete")
    events = watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, label_selector=f"made-by={name}", resource_version=version, timeout_seconds=50
    )
    for event in events:
        print("watch", event["type"])
        if event["type"] == "DELETED":
            break
    command = ["sh", "-c", "read -r line; echo got $line"]
    session = stream(
        core.connect_get_namespaced_pod_exec, pod, NAMESPACE, command=command, stdin=True, stdout=True, stderr=True, tty=False,
        _preload_content=False,
    )
    session.write_stdin("input\n")
    session.run_forever(timeout=50)
    print("exec", json.dumps(session.read_stdout(timeout=1)), session.returncode)
    try:
        core.read_namespaced_config_map(name, NAMESPACE)
    except client.ApiException as error:
        print("get", error.status, json.loads(error.body)["reason"])


main(*sys.argv[1:])
