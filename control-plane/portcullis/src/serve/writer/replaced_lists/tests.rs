use super::*;

fn stored(status: Value) -> StoredStatus {
    StoredStatus { uid: Some("u".to_owned()), status, ..StoredStatus::default() }
}

fn lists(status: &Value, wanted: &Value) -> ReplacedLists {
    ReplacedLists::of(&stored(status.clone()), wanted.clone()).unwrap()
}

fn entry(controller: &str, condition: &str) -> Value {
    json!({"controllerName": controller, "conditions": [{"type": condition}]})
}

fn test(path: &str, value: &Value) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

fn add(path: &str, value: &Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

#[test]
fn patch_compares_each_list_that_it_replaces() {
    let (theirs, ours) = (entry("theirs", "Accepted"), entry("ours", "Accepted"));
    let conditions = json!([{"type": "Accepted"}]);
    let listeners = json!([{"name": "tls", "attachedRoutes": 1}]);
    let table = [
        (
            "an object without a status",
            Value::Null,
            json!({"parents": [ours]}),
            vec![test("/status", &Value::Null), add("/status", &json!({"parents": [ours]}))],
        ),
        (
            "a status without the list",
            json!({}),
            json!({"ancestors": [ours]}),
            vec![test("/status/ancestors", &Value::Null), add("/status/ancestors", &json!([ours]))],
        ),
        (
            "a list with another controller's entry",
            json!({"parents": [theirs]}),
            json!({"parents": [theirs, ours]}),
            vec![test("/status/parents", &json!([theirs])), add("/status/parents", &json!([theirs, ours]))],
        ),
        (
            "a list whose last entry goes",
            json!({"parents": [ours]}),
            json!({"parents": []}),
            vec![test("/status/parents", &json!([ours])), add("/status/parents", &json!([]))],
        ),
        (
            "three lists, of which one stays",
            json!({"conditions": conditions, "listeners": [], "others": [1]}),
            json!({"addresses": ["192.0.2.7"], "conditions": conditions, "listeners": listeners}),
            vec![
                test("/status/addresses", &Value::Null),
                add("/status/addresses", &json!(["192.0.2.7"])),
                test("/status/listeners", &json!([])),
                add("/status/listeners", &listeners),
            ],
        ),
    ];
    for (name, status, wanted, expected) in table {
        let lists = lists(&status, &wanted);
        let patch: Vec<Value> = serde_json::from_slice(&lists.json_patch().unwrap()).unwrap();
        let expected = [vec![test("/metadata/uid", &json!("u"))], expected].concat();
        assert_eq!(patch, expected, "{name}");
        assert!(!lists.are_there(), "{name}");
        assert!(self::lists(&wanted, &wanted).are_there(), "{name}");
    }
    assert_eq!(ReplacedLists::of(&StoredStatus::default(), json!({"parents": []})), None, "without a UID");
}

/// The object after a JSON patch as kube-apiserver applies it; none if a test fails. A field that is absent is null to a test, and
/// the parent of a field has to be there.
fn patched(mut object: Value, patch: &[u8]) -> Option<Value> {
    for operation in serde_json::from_slice::<Vec<Value>>(patch).unwrap() {
        let (parent, field) = operation["path"].as_str()?.rsplit_once('/')?;
        let parent = object.pointer_mut(parent)?.as_object_mut()?;
        let value = &operation["value"];
        match operation["op"].as_str()? {
            "test" if parent.get(field).unwrap_or(&Value::Null) == value => {}
            "add" => drop(parent.insert(field.to_owned(), value.clone())),
            _ => return None,
        }
    }
    Some(object)
}

#[test]
fn lists_are_replaced_unless_they_or_the_object_are_others() {
    let (theirs, ours) = (entry("theirs", "Accepted"), entry("ours", "Accepted"));
    let with_status = |status: &Value| {
        let metadata = json!({"name": "a", "uid": "u", "resourceVersion": "7", "labels": {}});
        let mut object = json!({"metadata": metadata, "spec": {"hostnames": ["a.test"]}});
        if !status.is_null() {
            object["status"] = status.clone();
        }
        object
    };
    let set = |pointer: &'static str, value: Value| {
        move |object: &mut Value| {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field] = value.clone();
        }
    };
    type Edit = Box<dyn Fn(&mut Value)>;
    let edits: [(&str, Edit, bool); 8] = [
        ("nothing", Box::new(|_| {}), true),
        ("labels", Box::new(set("/metadata/labels", json!({"a": "b"}))), true),
        ("the version", Box::new(set("/metadata/resourceVersion", json!("8"))), true),
        ("the spec", Box::new(set("/spec", json!({"hostnames": ["b.test"]}))), true),
        ("another object", Box::new(set("/metadata/uid", json!("v"))), false),
        ("the status goes", Box::new(|object| drop(object.as_object_mut().unwrap().remove("status"))), false),
        ("an empty status", Box::new(set("/status", json!({}))), false),
        ("another controller's entry", Box::new(set("/status", json!({"parents": [theirs, theirs]}))), false),
    ];
    for status in [Value::Null, json!({"parents": [theirs]})] {
        let wanted = json!({"parents": [theirs, ours]});
        let lists = lists(&status, &wanted);
        for (name, edit, replaces) in &edits {
            let mut object = with_status(&status);
            edit(&mut object);
            // Without a status there is none that could go.
            let replaces = *replaces || (status.is_null() && *name == "the status goes");
            let found = patched(object.clone(), &lists.json_patch().unwrap());
            let mut expected = object.clone();
            expected["status"] = wanted.clone();
            assert_eq!(found, replaces.then_some(expected), "{name}, {status}");
            // The comparison here takes an empty status for none, which the version makes safe.
            let compares = replaces || (status.is_null() && *name == "an empty status");
            assert_eq!(lists.are_those_of(&serde_json::from_value(object).unwrap()), compares, "{name}, {status}");
        }
    }
}

#[test]
fn merge_patch_has_the_version_and_the_lists_that_change() {
    let read = json!({"conditions": [1], "listeners": [2]});
    let lists = lists(&read, &json!({"conditions": [1], "listeners": [3]}));
    let expected = json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"listeners": [3]}});
    assert_eq!(lists.merge_patch("7"), expected);
}

#[test]
fn patch_beyond_its_bound_is_not_made() {
    let patch = |length: usize| {
        let read = json!({"parents": ["x".repeat(length)]});
        lists(&read, &json!({"parents": ["y".repeat(length)]})).json_patch()
    };
    // Lists of host names of 32 parents have room.
    let ours = patch(32 * 20 * 1_024).unwrap();
    assert!(ours.len() > 2 * 32 * 20 * 1_024 && ours.len() <= MAX_PATCH);
    assert!(patch(MAX_PATCH / 2 - 1_024).is_some());
    assert_eq!(patch(MAX_PATCH / 2), None);
}
