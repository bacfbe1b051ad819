use portcullis_filter_config::ProtectedIdentities;

use super::Findings;
use crate::types::{ClusterProtectedIdentities, ProtectedIdentitySettings};

const PATH: &str = "spec.protectedIdentities";
const CLUSTER_PATH: &str = "spec.portcullis.protectedIdentities";
/// The most entries of a list.
const MAX: usize = 256;
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// `None` if no identity is protected.
pub(super) fn check_protected(raw: &ProtectedIdentitySettings, findings: &mut Findings) -> Option<ProtectedIdentities> {
    let drop_groups = match raw.action.as_str() {
        "" | "Refuse" => false,
        "DropGroup" => true,
        _ => {
            findings.problem(format!("{PATH}.action"), "must be Refuse or DropGroup");
            false
        }
    };
    let users = users(PATH, &raw.users, findings);
    let groups = entries(&format!("{PATH}.groups"), &raw.groups, findings, |group| match group {
        UNAUTHENTICATED if drop_groups => {
            Some("cannot be dropped: the servers put requests without a credential into it; use Refuse")
        }
        other => wrong_group(other),
    });
    if drop_groups && groups.is_empty() {
        findings.warning(format!("{PATH}.action"), "has no effect: no groups are named, and users are always refused");
    }
    (!users.is_empty() || !groups.is_empty()).then_some(ProtectedIdentities { users, groups, drop_groups })
}

/// `None` if an object protects no identity. The settings say whether groups are dropped.
pub(super) fn check_cluster_protected(
    raw: &ClusterProtectedIdentities,
    findings: &mut Findings,
) -> Option<ProtectedIdentities> {
    let users = users(CLUSTER_PATH, &raw.users, findings);
    let groups = entries(&format!("{CLUSTER_PATH}.groups"), &raw.groups, findings, |group| match group {
        UNAUTHENTICATED => Some("is every request without a credential: use allowAnonymous: false"),
        other => wrong_group(other),
    });
    let drop_groups = false;
    (!users.is_empty() || !groups.is_empty()).then_some(ProtectedIdentities { users, groups, drop_groups })
}

fn users(path: &str, raw: &[String], findings: &mut Findings) -> Vec<String> {
    entries(&format!("{path}.users"), raw, findings, |user| {
        (user == "*").then_some("would refuse every user: to close a cluster, use portcullis freeze")
    })
}

fn wrong_group(group: &str) -> Option<&'static str> {
    match group {
        AUTHENTICATED => Some("would refuse every authenticated user"),
        text if text.ends_with('*') => Some("is not a prefix: groups are named in full"),
        _ => None,
    }
}

fn entries(
    path: &str,
    raw: &[String],
    findings: &mut Findings,
    wrong: impl Fn(&str) -> Option<&'static str>,
) -> Vec<String> {
    if raw.len() > MAX {
        findings.problem(path, format!("must be at most {MAX}"));
    }
    for (index, text) in raw.iter().enumerate() {
        let is_name = !text.is_empty() && text.trim() == text && !text.chars().any(char::is_control);
        let problem = if is_name { wrong(text) } else { Some("must be a name without blanks at an end") };
        if let Some(problem) = problem {
            findings.problem(format!("{path}[{index}]"), problem);
        }
    }
    let mut sorted = raw.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(spec: Value) -> Result<Option<ProtectedIdentities>, String> {
        let document = json!({
            "apiVersion": crate::SETTINGS_API_VERSION, "kind": crate::SETTINGS_KIND, "metadata": {"name": "x"},
            "spec": {"protectedIdentities": spec},
        });
        let checked = crate::check_settings(&crate::parse_settings(&document).unwrap());
        checked.outcome.map(|settings| settings.protected).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn identities_are_protected_only_if_named() {
        assert_eq!(crate::Settings::default().protected, None);
        assert_eq!(checked(json!({})), Ok(None));
        assert_eq!(checked(json!({"action": "DropGroup", "users": [], "groups": []})), Ok(None));
        let masters = |drop_groups| {
            Ok(Some(ProtectedIdentities { users: vec![], groups: vec!["system:masters".into()], drop_groups }))
        };
        assert_eq!(checked(json!({"groups": ["system:masters"]})), masters(false));
        assert_eq!(
            checked(json!({"groups": ["system:masters", "system:masters"], "action": "Refuse"})),
            masters(false)
        );
        assert_eq!(checked(json!({"groups": ["system:masters"], "action": "DropGroup"})), masters(true));
        let users = json!(["system:serviceaccount:kube-system:*", "kubernetes-admin"]);
        let sorted = vec!["kubernetes-admin".to_owned(), "system:serviceaccount:kube-system:*".to_owned()];
        assert_eq!(checked(json!({"users": users})).unwrap().unwrap().users, sorted);
    }

    #[test]
    fn object_protects_names_and_groups_but_not_everybody_else() {
        let checked = |users: &[&str], groups: &[&str]| {
            let list = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
            let raw = ClusterProtectedIdentities { users: list(users), groups: list(groups) };
            let mut findings = Findings::default();
            let protected = check_cluster_protected(&raw, &mut findings);
            (protected.is_some(), findings.problems.first().map(|problem| problem.path.clone()).unwrap_or_default())
        };
        let own = "spec.portcullis.protectedIdentities";
        assert_eq!(checked(&[], &[]), (false, String::new()));
        assert_eq!(checked(&["a*"], &["system:masters"]), (true, String::new()));
        assert_eq!(checked(&["*"], &[]).1, format!("{own}.users[0]"));
        for group in ["system:authenticated", "system:unauthenticated", "a*", ""] {
            assert_eq!(checked(&[], &["x", group]).1, format!("{own}.groups[1]"), "{group}");
        }
    }

    #[test]
    fn settings_that_would_close_the_gateway_are_refused() {
        for (spec, path) in [
            (json!({"groups": ["x"], "action": "refuse"}), "spec.protectedIdentities.action"),
            (json!({"groups": ["x", ""]}), "spec.protectedIdentities.groups[1]"),
            (json!({"groups": ["x "]}), "spec.protectedIdentities.groups[0]"),
            (json!({"groups": ["system:*"]}), "spec.protectedIdentities.groups[0]"),
            (json!({"groups": ["system:authenticated"]}), "spec.protectedIdentities.groups[0]"),
            (
                json!({"groups": ["system:unauthenticated"], "action": "DropGroup"}),
                "spec.protectedIdentities.groups[0]",
            ),
            (json!({"users": ["*"]}), "spec.protectedIdentities.users[0]"),
            (json!({"users": ["a\tb"]}), "spec.protectedIdentities.users[0]"),
            (json!({"users": vec!["a"; 257]}), "spec.protectedIdentities.users"),
        ] {
            let problem = checked(spec.clone()).unwrap_err();
            assert!(problem.starts_with(&format!("{path}: ")), "{spec}: {problem}");
        }
        assert!(checked(json!({"groups": ["system:unauthenticated"]})).is_ok());
    }
}
