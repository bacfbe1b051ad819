//! The clients with the most requests, as gauges behind Envoy's page. Envoy itself never forgets a series, and so must not have
//! one for each name that comes and goes.

use std::collections::BTreeMap;
use std::fmt::Write;

use portcullis_filter_config::activity::{Activity, Talker};

/// A gauge: name, help, and the number that it shows.
type Gauge = (&'static str, &'static str, fn(&Talker) -> u64);

/// All of them; none has a series for 0.
const GAUGES: [Gauge; 5] = [
    (
        "portcullis_top_requests",
        "Requests of the clients with the most requests, since Envoy's start: never too low, too high by at most \
         portcullis_top_requests_error. All others together are other.",
        |talker| talker.requests,
    ),
    ("portcullis_top_requests_error", "The most by which portcullis_top_requests is too high.", |talker| talker.error),
    ("portcullis_top_lists", "Lists and watches among these requests.", |talker| talker.lists),
    ("portcullis_top_response_bytes", "Bytes of the answers to these requests.", |talker| talker.bytes),
    ("portcullis_top_refusals", "Refusals of the gateway among these requests.", |talker| talker.refusals),
];

/// Cluster, kind and name.
type Labels<'a> = (&'a str, &'static str, &'a str);

/// The gauges in the text format of Prometheus; nothing without talkers.
pub(super) fn text(activity: &Activity) -> String {
    let talkers = by_labels(activity);
    let mut text = String::new();
    for (name, help, number) in GAUGES {
        let mut shown = talkers.iter().filter(|(_, talker)| number(talker) > 0).peekable();
        if shown.peek().is_none() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for ((cluster, kind, client), talker) in shown {
            let (cluster, client) = (escaped(cluster), escaped(client));
            let number = number(talker);
            let _ = writeln!(text, "{name}{{cluster=\"{cluster}\",kind=\"{kind}\",name=\"{client}\"}} {number}");
        }
    }
    text
}

/// Every labels once, for two samples of the same would make Prometheus refuse the page: clusters may be called alike.
fn by_labels(activity: &Activity) -> BTreeMap<Labels<'_>, Talker> {
    let mut all: BTreeMap<Labels<'_>, Talker> = BTreeMap::new();
    for cluster in &activity.clusters {
        let Some(top) = &cluster.top else { continue };
        for (kind, talkers) in [("user", &top.users), ("group", &top.groups), ("userAgent", &top.user_agents)] {
            for talker in talkers {
                let sum = all.entry((&cluster.cluster, kind, &talker.name)).or_default();
                sum.requests = sum.requests.saturating_add(talker.requests);
                sum.error = sum.error.saturating_add(talker.error);
                sum.lists = sum.lists.saturating_add(talker.lists);
                sum.bytes = sum.bytes.saturating_add(talker.bytes);
                sum.refusals = sum.refusals.saturating_add(talker.refusals);
            }
        }
    }
    all
}

/// A label's value: clients choose these texts.
fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for one in value.chars() {
        match one {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use portcullis_filter_config::activity::{ClusterActivity, TopTalkers};

    use super::*;

    fn talker(name: &str, requests: u64) -> Talker {
        Talker { name: name.to_owned(), requests, ..Talker::default() }
    }

    #[test]
    fn hostile_names_stay_within_their_label_and_are_there_once() {
        let users = vec![talker("a\"} 1\nup{x=\"\\", 3), Talker { lists: 2, ..talker("bob", 1) }];
        let top = TopTalkers { users, user_agents: vec![talker("a", 1)], ..TopTalkers::default() };
        let cluster = ClusterActivity { cluster: "c".to_owned(), top: Some(top), ..ClusterActivity::default() };
        let activity = Activity { clusters: vec![cluster.clone(), cluster], ..Activity::default() };
        let text = text(&activity);
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                r#"portcullis_top_requests{cluster="c",kind="user",name="a\"} 1\nup{x=\"\\"} 6"#,
                r#"portcullis_top_requests{cluster="c",kind="user",name="bob"} 2"#,
                r#"portcullis_top_requests{cluster="c",kind="userAgent",name="a"} 2"#,
                r#"portcullis_top_lists{cluster="c",kind="user",name="bob"} 4"#,
            ]
        );
        assert_eq!(super::text(&Activity::default()), "");
    }
}
