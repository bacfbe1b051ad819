//! Access lists.

use portcullis_filter_config::{AccessLists, AccessScope, MAX_USER_AGENT, Rule};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Findings;
use super::cidr::{Cidr, check_ranges, have_all_addresses};
use super::denials::{check_message, takes_heartbeats};
use super::policies::check_rule;
use crate::bounds::{
    MAX_ACCESS_ENTRIES, MAX_ADDRESSES, MAX_CLIENT_ADDRESS_BITS, MAX_GATEWAY_ADDRESSES, MAX_USER_AGENTS,
};
use crate::request_part::{RequestPart, parts};
use crate::types::{AccessEntry, AccessSpec, ClientAddressSpec};

/// `None` if there are no lists.
pub(super) fn check_access(
    raw: &AccessSpec,
    path: &str,
    scope: AccessScope,
    findings: &mut Findings,
) -> Option<AccessLists> {
    let mut list = |field: &str, entries: &[AccessEntry]| -> Vec<portcullis_filter_config::AccessEntry> {
        let path = format!("{path}.{field}");
        if entries.len() > MAX_ACCESS_ENTRIES {
            findings.problem(&path, format!("must not have more than {MAX_ACCESS_ENTRIES} entries"));
        }
        let entries = entries.iter().take(MAX_ACCESS_ENTRIES).enumerate();
        entries.map(|(number, entry)| check_entry(entry, &format!("{path}[{number}]"), findings)).collect()
    };
    let lists = AccessLists { scope, deny: list("deny", &raw.deny), allow: list("allow", &raw.allow) };
    for (number, _) in raw.allow.iter().enumerate().filter(|(_, entry)| !entry.message.is_empty()) {
        findings.problem(format!("{path}.allow[{number}].message"), "is only for entries of deny");
    }
    check_addresses(&lists, path, findings);
    if !raw.force {
        check_nodes(&lists, path, findings);
    }
    (!lists.deny.is_empty() || !lists.allow.is_empty()).then_some(lists)
}

fn check_entry(raw: &AccessEntry, path: &str, findings: &mut Findings) -> portcullis_filter_config::AccessEntry {
    let names_users = !(raw.users.is_empty() && raw.service_accounts.is_empty() && raw.user_groups.is_empty());
    let is_empty = raw.addresses.is_empty() && raw.user_agents.is_empty() && raw.rules.is_empty() && !names_users;
    if is_empty {
        findings.problem(path, "names no requests: every one would match");
    }
    for (number, rule) in raw.rules.iter().enumerate() {
        let path = format!("{path}.rules[{number}]");
        check_rule(rule, &path, findings);
        if parts(rule).iter().all(RequestPart::is_empty) {
            findings.problem(&path, "matches nothing: a list that names it would be without effect");
        }
        let names_its_own = !(rule.users.is_empty() && rule.service_accounts.is_empty() && rule.user_groups.is_empty());
        if names_users && names_its_own {
            findings.problem(path, "names users, and so does its entry: name them in one place");
        }
    }
    if raw.user_agents.len() > MAX_USER_AGENTS {
        findings.problem(format!("{path}.userAgents"), format!("must not have more than {MAX_USER_AGENTS} entries"));
    }
    for (number, start) in raw.user_agents.iter().enumerate() {
        if start.is_empty() || start.len() > MAX_USER_AGENT || start.chars().any(char::is_control) {
            let message = format!("must be the start of a line, of up to {MAX_USER_AGENT} bytes");
            findings.problem(format!("{path}.userAgents[{number}]"), message);
        }
    }
    check_message(&raw.message, &format!("{path}.message"), findings);
    portcullis_filter_config::AccessEntry {
        addresses: check_ranges(&raw.addresses, &format!("{path}.addresses"), findings)
            .iter()
            .map(ToString::to_string)
            .collect(),
        user_agents: raw.user_agents.clone(),
        rules: rules(raw, names_users),
        until_seconds: check_until(&raw.until, path, findings),
        message: raw.message.clone(),
    }
}

/// The ranges of client addresses that may connect, of an object with so many names and virtual IPs.
pub(super) fn check_client_addresses(raw: &ClientAddressSpec, names: usize, findings: &mut Findings) -> Vec<Cidr> {
    let path = "spec.portcullis.clientAddresses.allow";
    let ranges = check_ranges(&raw.allow, path, findings);
    if let Some(all) = ranges.iter().find(|range| range.length == 0) {
        let hint = "remove the list to let all addresses connect; ::/1 and 8000::/1 are all of IPv6".to_owned();
        findings.problem_with_hint(path, &format!("{all} is all addresses"), hint);
    }
    let bits = ranges.iter().map(|range| usize::from(range.length)).sum::<usize>().saturating_mul(names);
    if bits > MAX_CLIENT_ADDRESS_BITS {
        let message = format!(
            "takes too much memory of Envoy: the bits of all ranges times the names and virtual IPs of the object are {bits}, and \
             at most {MAX_CLIENT_ADDRESS_BITS} are possible"
        );
        let hint = "write larger ranges, or deny by access, which has no such bound".to_owned();
        findings.problem_with_hint(path, &message, hint);
    }
    ranges
}

/// The rules with the users of their entry, for all requests if it has users and no rules.
fn rules(raw: &AccessEntry, names_users: bool) -> Vec<Rule> {
    if !names_users {
        return raw.rules.clone();
    }
    let all = || vec!["*".to_owned()];
    let all = Rule { verbs: all(), api_groups: all(), resources: all(), non_resource_urls: all(), ..Rule::default() };
    let rules = if raw.rules.is_empty() { vec![all] } else { raw.rules.clone() };
    let of_users = |rule| Rule {
        users: raw.users.clone(),
        service_accounts: raw.service_accounts.clone(),
        user_groups: raw.user_groups.clone(),
        ..rule
    };
    rules.into_iter().map(of_users).collect()
}

/// The end of an entry, in seconds since 1970.
pub(crate) fn read_until(text: &str) -> Option<u64> {
    u64::try_from(OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp()).ok()
}

fn check_until(text: &str, path: &str, findings: &mut Findings) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let until = read_until(text);
    if until.is_none() {
        findings.problem(format!("{path}.until"), "must be a time as 2026-12-31T18:00:00Z");
    }
    until
}

/// The start of the user agent of kubelets.
const KUBELET: &str = "kubelet/";

/// Checks that kubelets may go on to renew their leases (KEP-589). An entry with addresses may be for kubelets or not: it denies
/// none here, unless it is for all addresses, and may let them in. One that ends lets nothing in for long.
fn check_nodes(lists: &AccessLists, path: &str, findings: &mut Findings) {
    let takes_rules = |entry: &portcullis_filter_config::AccessEntry| {
        entry.rules.is_empty() || entry.rules.iter().any(takes_heartbeats)
    };
    let hint = "set access.force if that is wanted";
    let denies = |entry: &portcullis_filter_config::AccessEntry| {
        let of_all = entry.addresses.is_empty() || have_all_addresses(&entry.addresses);
        let agents = &entry.user_agents;
        of_all && (agents.is_empty() || agents.iter().any(|start| KUBELET.starts_with(start))) && takes_rules(entry)
    };
    if let Some(number) = lists.deny.iter().position(denies) {
        let message = "denies the heartbeats of kubelets: all nodes would become NotReady";
        findings.problem_with_hint(format!("{path}.deny[{number}]"), message, hint.to_owned());
    }
    let lets_in = |entry: &portcullis_filter_config::AccessEntry| {
        let agents = &entry.user_agents;
        let of_kubelets = agents.is_empty() || agents.iter().any(|start| KUBELET.starts_with(start));
        entry.until_seconds.is_none() && of_kubelets && takes_rules(entry)
    };
    if !lists.allow.is_empty() && !lists.allow.iter().any(lets_in) {
        let message =
            "no entry without an end is certain to let in the heartbeats of kubelets: all nodes may become NotReady";
        let hint = "add an entry for the group system:nodes, or set access.force".to_owned();
        findings.problem_with_hint(format!("{path}.allow"), message, hint);
    }
}

/// Checks that lists do not take too much of each gateway: those of the settings are part of every cluster.
fn check_addresses(lists: &AccessLists, path: &str, findings: &mut Findings) {
    let count: usize = lists.all().map(|entry| entry.addresses.len()).sum();
    let most = match lists.scope {
        AccessScope::Gateway => MAX_GATEWAY_ADDRESSES,
        AccessScope::Cluster => MAX_ADDRESSES,
    };
    if count > most {
        findings.problem(path, format!("must not have more than {most} addresses in all entries, and has {count}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(access: &Value) -> (Option<AccessLists>, Vec<String>) {
        let raw: AccessSpec = serde_json::from_value(access.clone()).unwrap();
        let mut findings = Findings::default();
        let lists = check_access(&raw, "access", AccessScope::Cluster, &mut findings);
        (lists, findings.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn entry_that_is_wrong_is_refused_with_its_place() {
        let long = "x".repeat(257);
        let addresses: Vec<String> = (0..=10_000_u32).map(|at| std::net::Ipv4Addr::from(at << 8).to_string()).collect();
        let rule = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "users": ["a"]});
        for (access, place) in [
            (json!({"deny": [{}]}), "access.deny[0]: "),
            (json!({"allow": [{"until": "2026-01-01T00:00:00Z"}]}), "access.allow[0]: "),
            (json!({"deny": [{"users": ["a"]}, {"addresses": ["10.0.0.1/8"]}]}), "access.deny[1].addresses[0]: "),
            (json!({"deny": [{"users": ["a"], "until": "tomorrow"}]}), "access.deny[0].until: "),
            (json!({"deny": [{"users": ["a"], "until": "1969-01-01T00:00:00Z"}]}), "access.deny[0].until: "),
            (json!({"deny": [{"users": ["a"], "message": "a\nb"}]}), "access.deny[0].message: "),
            (json!({"deny": [{"userAgents": [""]}]}), "access.deny[0].userAgents[0]: "),
            (json!({"deny": [{"userAgents": [long]}]}), "access.deny[0].userAgents[0]: "),
            (json!({"deny": [{"users": ["b"], "rules": [rule]}]}), "access.deny[0].rules[0]: "),
            (json!({"allow": [{"addresses": ["10.0.0.0/8"], "message": "m"}]}), "access.allow[0].message: "),
            (
                json!({"deny": [{"users": ["b"], "rules": [{"apiGroups": ["*"], "resources": ["*"]}]}]}),
                "access.deny[0].rules[0]: ",
            ),
            (json!({"deny": vec![json!({"users": ["a"]}); 65]}), "access.deny: "),
            (json!({"deny": [{"addresses": addresses}]}), "access: "),
        ] {
            let (_, problems) = checked(&access);
            assert!(problems.iter().any(|problem| problem.starts_with(place)), "{access}: {problems:?}");
        }
    }

    #[test]
    fn ranges_that_envoy_cannot_keep_apart_or_hold_are_refused() {
        let many: Vec<String> = (0..256_u32).map(|at| format!("2001:db8::{at:x}")).collect();
        for (allow, names, place) in [
            (
                vec!["10.0.0.0/8".to_owned(), "::/0".to_owned()],
                1,
                Some("spec.portcullis.clientAddresses.allow: ::/0 is"),
            ),
            (vec!["0.0.0.0/0".to_owned()], 1, Some("spec.portcullis.clientAddresses.allow: 0.0.0.0/0 is")),
            (vec!["0.0.0.0/00".to_owned()], 1, Some("spec.portcullis.clientAddresses.allow: 0.0.0.0/0 is")),
            (vec!["::ffff:0.0.0.0/96".to_owned()], 1, Some("spec.portcullis.clientAddresses.allow: 0.0.0.0/0 is")),
            (many.clone(), 3, None),
            (many, 4, Some("spec.portcullis.clientAddresses.allow: takes too much memory")),
            (vec!["0.0.0.0/1".to_owned(), "128.0.0.0/1".to_owned()], 321, None),
        ] {
            let mut findings = Findings::default();
            check_client_addresses(&ClientAddressSpec { allow: allow.clone() }, names, &mut findings);
            let problem = findings.problems.first().map(ToString::to_string);
            assert_eq!(problem.is_some(), place.is_some(), "{problem:?}");
            assert!(problem.unwrap_or_default().starts_with(place.unwrap_or_default()), "{allow:?} {names}");
        }
    }

    #[test]
    fn users_of_an_entry_are_those_of_its_rules() {
        let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let (lists, problems) = checked(&json!({
            "deny": [{"users": ["mallory"], "until": "2026-12-31T18:00:00+01:00", "message": "m"},
                     {"userGroups": ["tenants"], "rules": [pods]}],
        }));
        assert_eq!(problems, Vec::<String>::new());
        let deny = lists.unwrap().deny;
        assert_eq!((deny[0].rules[0].users[0].as_str(), deny[0].rules[0].verbs[0].as_str()), ("mallory", "*"));
        assert_eq!((deny[0].until_seconds, deny[0].message.as_str()), (Some(1_798_736_400), "m"));
        assert_eq!(
            (deny[1].rules[0].user_groups[0].as_str(), deny[1].rules[0].resources[0].as_str()),
            ("tenants", "pods")
        );
        assert_eq!(checked(&json!({"deny": [], "allow": []})), (None, vec![]));
    }

    #[test]
    fn lists_that_take_all_nodes_away_need_force() {
        let reads = json!({"verbs": ["get", "list"], "apiGroups": ["*"], "resources": ["*"]});
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        for (access, takes_nodes) in [
            (json!({"deny": [{"userGroups": ["system:nodes"]}]}), true),
            (json!({"deny": [{"users": ["*"]}]}), true),
            (json!({"deny": [{"rules": [all]}]}), true),
            (json!({"deny": [{"rules": [reads]}]}), false),
            (json!({"deny": [{"users": ["system:node:*"], "addresses": ["10.0.0.0/8"]}]}), false),
            (json!({"deny": [{"users": ["system:node:one"]}]}), false),
            (json!({"allow": [{"userGroups": ["admins"]}]}), true),
            (json!({"allow": [{"rules": [reads]}]}), true),
            (json!({"allow": [{"userGroups": ["admins"]}, {"userGroups": ["system:nodes"]}]}), false),
            (json!({"deny": [{"userGroups": ["-platform"]}]}), true),
            (json!({"deny": [{"userGroups": ["-platform", "-system:nodes"]}]}), false),
            (json!({"allow": [{"userGroups": ["-contractors"]}]}), false),
            (json!({"deny": [{"addresses": ["0.0.0.0/0"]}]}), true),
            (json!({"deny": [{"addresses": ["0.0.0.0/1", "128.0.0.0/1"]}]}), true),
            (json!({"deny": [{"addresses": ["8000::/1", "::/1"]}]}), true),
            (json!({"deny": [{"addresses": ["0.0.0.0/1", "128.0.0.0/2"]}]}), false),
            (json!({"deny": [{"addresses": ["0.0.0.0/0"], "userGroups": ["tenants"]}]}), false),
            (json!({"deny": [{"userAgents": ["kube"]}]}), true),
            (json!({"deny": [{"userAgents": ["kubectl/"]}]}), false),
            (json!({"allow": [{"userAgents": ["kubectl/"]}]}), true),
            (json!({"allow": [{"userAgents": ["kubectl/", "kubelet/v1.36"]}]}), true),
            (json!({"allow": [{"userAgents": ["kubectl/", "kubelet/"]}]}), false),
            (
                json!({"allow": [{"userGroups": ["a"]}, {"userGroups": ["system:nodes"], "until": "2027-01-01T00:00:00Z"}]}),
                true,
            ),
            (json!({"allow": [{"addresses": ["10.0.0.0/8"]}]}), false),
            (json!({"allow": [{"userGroups": ["system:authenticated"]}]}), false),
        ] {
            assert_eq!(!checked(&access).1.is_empty(), takes_nodes, "{access}");
            let mut forced = access.clone();
            forced["force"] = json!(true);
            assert_eq!(checked(&forced).1, Vec::<String>::new(), "{forced}");
        }
    }
}
