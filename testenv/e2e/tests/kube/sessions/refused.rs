//! kubectl's messages about sessions that are refused or ended.

use portcullis_e2e::{Manifest, allow_all};
use serde_json::json;

use super::limit;
use super::place::{Place, Protocol, Way};

#[test]
fn kubectl_tells_why_there_is_no_session() {
    let Some(place) = Place::start("refused") else { return };
    the_apiservers_own_refusal_arrives(&place);
    the_gateways_refusal_is_told(&place);
    limit::ends_forgotten_sessions(&place);
}

fn kubectl_message(way: &Way<'_>) -> String {
    let output = way.kubectl(["exec", &way.pod, "--", "true"]).run().unwrap();
    assert_eq!(output.status.code(), Some(1), "{way}: {output:?}");
    output.stderr.replace(&way.pod, "POD")
}

fn the_apiservers_own_refusal_arrives(place: &Place) {
    let stranger = place.stranger();
    for protocol in Protocol::ALL {
        let directly = kubectl_message(&place.directly(&stranger, protocol));
        assert!(directly.contains("User \"bob\" cannot "), "{directly}");
        for way in place.through(&stranger, protocol) {
            assert_eq!(kubectl_message(&way), directly, "{way}");
        }
    }
}

fn the_gateways_refusal_is_told(place: &Place) {
    // kubectl looks at the pod first.
    let pods = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods"], "nonResourceURLs": ["*"]});
    let none = json!({"flowControlSchemas": [{"name": "none", "maxRequestsInflight": {"max": 0}}]});
    let rows: [(&dyn Fn(Manifest) -> Manifest, &str); 2] = [
        (&|manifest| manifest.policies(json!([{"rules": [pods]}])), "no dispatch policy of the gateway matches"),
        (
            &|manifest| {
                let full = json!([{"rules": [pods]}, {"rules": [allow_all()], "flowControlSchemaName": "none"}]);
                manifest.set("/spec/flowControl", none.clone()).policies(full)
            },
            "too many requests of this kind",
        ),
    ];
    let user = place.certificate();
    for (change, expected) in rows {
        for manifest in [place.fixture.manifest(), place.impersonating()] {
            place.fixture.gateway.apply(&change(manifest)).unwrap();
        }
        for way in Protocol::ALL.into_iter().flat_map(|protocol| place.through(&user, protocol)) {
            let told = kubectl_message(&way);
            assert!(told.contains(expected), "{way}: {told}");
        }
    }
}
