//! NetworkPolicies: the allowed connections between pods.

use portcullis_harness::project_root;
use portcullis_harness::rundir::RunDir;
use serde_json::{Value, json};

use super::rendered::{CONTROL_PLANE, GATEWAY, Rendered};

/// The addresses of cloud metadata services, which hand out credentials.
const METADATA: [&str; 4] = ["169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"];

fn ports(rule: &Value) -> Vec<&Value> {
    rule["ports"].as_array().into_iter().flatten().map(|one| &one["port"]).collect()
}

fn rules<'a>(policy: &'a Value, direction: &str) -> &'a Vec<Value> {
    policy["spec"][direction].as_array().unwrap_or_else(|| panic!("no {direction} in {policy}"))
}

#[test]
fn ports_are_closed_unless_a_policy_names_them() {
    let Some(rendered) = Rendered::of("base") else { return };
    let all = &rendered.get("NetworkPolicy", "portcullis-default-deny")["spec"];
    assert_eq!(*all, json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
    for name in [CONTROL_PLANE, GATEWAY] {
        let policy = &rendered.get("NetworkPolicy", name)["spec"];
        assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]), "{name}");
        let labels = &rendered.get("Deployment", name)["spec"]["template"]["metadata"]["labels"];
        assert_eq!(&policy["podSelector"]["matchLabels"], labels, "{name}");
    }
}

#[test]
fn keys_travel_to_gateways_only() {
    let Some(rendered) = Rendered::of("base") else { return };
    let gateways = &rendered.get("Deployment", GATEWAY)["spec"]["template"]["metadata"]["labels"];
    let monitoring = json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]);
    let rules_of_plane = rules(rendered.get("NetworkPolicy", CONTROL_PLANE), "ingress");
    assert_eq!(rules_of_plane.len(), 2);
    assert_eq!((ports(&rules_of_plane[0]), ports(&rules_of_plane[1])), (vec![&json!("xds")], vec![&json!("http")]));
    assert_eq!(rules_of_plane[0]["from"], json!([{"podSelector": {"matchLabels": gateways}}]));
    assert_eq!(rules_of_plane[1]["from"], monitoring);
    let rules_of_gateway = rules(rendered.get("NetworkPolicy", GATEWAY), "ingress");
    assert_eq!(rules_of_gateway.len(), 2);
    assert_eq!(
        (ports(&rules_of_gateway[0]), ports(&rules_of_gateway[1])),
        (vec![&json!("https")], vec![&json!("http")])
    );
    assert!(rules_of_gateway[0]["from"].is_null(), "clients come from anywhere");
    assert_eq!(rules_of_gateway[1]["from"], monitoring);
    let plane = &rendered.get("Deployment", CONTROL_PLANE)["spec"]["template"]["metadata"]["labels"];
    let to_plane = &rules(rendered.get("NetworkPolicy", GATEWAY), "egress")[0];
    assert_eq!(
        (&to_plane["to"], ports(to_plane)),
        (&json!([{"podSelector": {"matchLabels": plane}}]), vec![&json!("xds")])
    );
}

#[test]
fn instance_metadata_cannot_be_reached() {
    let Some(rendered) = Rendered::of("base") else { return };
    for name in [CONTROL_PLANE, GATEWAY] {
        let all = rules(rendered.get("NetworkPolicy", name), "egress");
        let blocks = all.iter().flat_map(|rule| rule["to"].as_array().unwrap()).filter(|to| !to["ipBlock"].is_null());
        let mut seen = 0;
        for block in blocks {
            let range = block["ipBlock"]["cidr"].as_str().unwrap();
            for address in METADATA.iter().filter(|one| one.contains(':') == range.contains(':')) {
                let except = block["ipBlock"]["except"].as_array().unwrap();
                assert!(
                    except.iter().any(|one| covers(one.as_str().unwrap(), address)),
                    "{name}: {address} in {block}"
                );
                seen += 1;
            }
        }
        assert_eq!(seen, METADATA.len(), "{name}");
        assert!(all.iter().all(|rule| !rule["ports"].as_array().unwrap().is_empty()), "{name}: no port is left open");
    }
}

/// Whether a range of addresses covers one.
fn covers(range: &str, address: &str) -> bool {
    let (network, bits) = range.split_once('/').unwrap();
    let number = |text: &str| match text.parse().unwrap() {
        std::net::IpAddr::V4(four) => u128::from(u32::from(four)) << 96,
        std::net::IpAddr::V6(six) => u128::from(six),
    };
    let bits: u32 = bits.parse().unwrap();
    let differing = number(network) ^ number(address);
    differing.leading_zeros() >= bits
}

/// The overlay that docs/operations.md shows, made as it is printed there.
#[test]
fn narrowed_egress_of_the_docs_is_the_gateways() {
    let docs = std::fs::read_to_string(project_root().join("docs/operations.md")).unwrap();
    let blocks = docs.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let overlay: Vec<&str> = blocks.filter(|block| block.contains("kind: Kustomization")).collect();
    assert_eq!(overlay.len(), 1);
    let run = RunDir::new("narrowed").unwrap();
    // kustomize takes no absolute path.
    let up = "../".repeat(run.path().components().count() - 1);
    let base = format!("{up}{}", project_root().join("deploy/kubernetes/base").strip_prefix("/").unwrap().display());
    run.write("kustomization.yaml", overlay[0].replace("../../base", &base)).unwrap();
    let Some(rendered) = Rendered::at(run.path()) else { return };
    let policy = rendered.get("NetworkPolicy", GATEWAY);
    let labels = &rendered.get("Deployment", GATEWAY)["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], labels);
    // Policies are a union: no other one of a gateway's may let it go further.
    let of_gateways = rendered.all("NetworkPolicy").filter(|one| {
        let wanted = one["spec"]["podSelector"]["matchLabels"].as_object().cloned().unwrap_or_default();
        wanted.iter().all(|(key, value)| labels[key] == *value)
    });
    let mut ranges = Vec::new();
    for rule in of_gateways.flat_map(|one| one["spec"]["egress"].as_array().into_iter().flatten()) {
        let to = rule["to"].as_array().unwrap_or_else(|| panic!("anywhere: {rule}"));
        ranges.extend(to.iter().filter_map(|one| one["ipBlock"]["cidr"].as_str()));
    }
    assert_eq!(ranges, ["10.0.0.0/8"]);
    let to_plane = &rules(policy, "egress")[0];
    assert_eq!(ports(to_plane), vec![&json!("xds")]);
}
