use serde_json::json;

use super::world::{INFRA, assert_among, class, gateway, inventory, lines, listener, read};
use crate::{Inventory, ObjectName, Usability, attach};

/// The Gateways of a class go on by the version that was accepted last.
#[test]
fn class_is_accepted_by_a_former_version_of_its_settings() {
    let mut class = class();
    class["spec"]["parametersRef"] = json!({"group": "portcullis.dev", "kind": "GatewaySettings", "name": "default"});
    let objects = read(&[class, gateway(&json!([listener("l", 443, "HTTPS", "a.test")]))]);
    let judged = |settings: Usability| {
        attach(&objects, &Inventory { settings: [("default".to_owned(), settings)].into(), ..inventory() })
    };
    let why = || "spec.x: is wrong".to_owned();
    let former = judged(Usability::Former(why()));
    let message = "GatewaySettings default are used as they were accepted last: spec.x: is wrong";
    let expected = format!("class portcullis Accepted True Accepted: {message}");
    assert_among("an earlier version is in use", &lines(&former), &[&expected, "served l:443"]);
    assert_eq!(former.served[0].gateway, ObjectName::new(INFRA, "g"));
    let never = lines(&judged(Usability::Malformed(why())));
    assert_among("none was accepted", &never, &["class portcullis Accepted False InvalidParameters", "no served"]);
}
