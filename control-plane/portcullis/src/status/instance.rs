//! The part of a status that is about one instance.

use portcullis_api::{CLUSTER_KIND, INSTANCE_KIND};
use serde_json::Value;

use super::arguments::Status;
use super::report::StatusReport;
use super::text;

/// Leaves an instance, what belongs to it and its Envoys; `None` if there is no such instance.
pub(super) fn keep(answer: &mut Value, name: &str) -> Option<()> {
    let is_in = |object: &Value, field: &str| {
        let all = object.get(field).and_then(Value::as_array).into_iter().flatten();
        all.into_iter().any(|one| one.as_str() == Some(name))
    };
    let is_text = |object: &Value, field: &str, text: &str| object.get(field).and_then(Value::as_str) == Some(text);
    let objects = answer.get_mut("objects")?.as_array_mut()?;
    objects.retain(|object| {
        let is_it = is_text(object, "kind", INSTANCE_KIND) && is_text(object, "name", name);
        is_it || (is_text(object, "kind", CLUSTER_KIND) && is_in(object, "instances"))
    });
    if !objects.iter().any(|object| is_text(object, "kind", INSTANCE_KIND)) {
        return None;
    }
    let view = format!("instance/{name}");
    let is_of_view = |node: &Value| {
        let rest = node.get("view").and_then(Value::as_str).and_then(|found| found.strip_prefix(&view));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some(nodes) = answer.get_mut("nodes").and_then(Value::as_array_mut) {
        nodes.retain(is_of_view);
    }
    // Envoys of instances report no health, and it is not known to which instance an Envoy wanted to belong.
    let fields = answer.as_object_mut()?;
    fields.retain(|field, _| !["endpoints", "rejectedNodes"].contains(&field.as_str()));
    Some(())
}

/// The conditions of the instance that was asked for.
pub(super) fn heading(report: &StatusReport, arguments: &Status) -> String {
    let Some(name) = &arguments.instance else { return String::new() };
    let is_it = |object: &&super::report::Object| object.kind == INSTANCE_KIND && object.name == *name;
    report.objects.iter().find(is_it).map(|object| text::detail(object) + "\n").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_of_an_instance_has_nothing_of_others() {
        let cluster =
            |name: &str, instances: &[&str]| json!({"kind": CLUSTER_KIND, "name": name, "instances": instances});
        let node = |id: &str, view: Option<&str>| json!({"id": id, "view": view});
        let mut answer = json!({
            "objects": [
                {"kind": INSTANCE_KIND, "name": "a"}, {"kind": INSTANCE_KIND, "name": "ab"},
                {"kind": "GatewaySettings", "name": "a"},
                cluster("one.test", &["a"]), cluster("passes.test", &["ab", "a"]), cluster("b.test", &["ab"]),
                cluster("free.test", &[]),
            ],
            "nodes": [
                node("e0", Some("instance/a")), node("e1", Some("instance/a/wasm")), node("e2", Some("instance/ab")),
                node("e3", None), node("e4", Some("gateway/a/b")),
            ],
            "endpoints": {"portcullis/-/free.test/all.h2": {}}, "rejectedNodes": [{"node": "x"}], "snapshot": "s",
        });
        let mut of_none = answer.clone();
        assert_eq!(keep(&mut of_none, "gone"), None);
        assert_eq!(keep(&mut answer, "a"), Some(()));
        let names = |field: &str, key: &str| -> Vec<String> {
            answer[field].as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("objects", "name"), ["a", "one.test", "passes.test"]);
        assert_eq!(names("nodes", "id"), ["e0", "e1"]);
        assert_eq!((answer.get("endpoints"), answer.get("rejectedNodes")), (None, None));
    }
}
