use std::collections::BTreeMap;

use portcullis_filter_config::activity::{Talker, TopTalkers};

use super::counts::BUCKETS;
use super::fleet_view::{SummedActivity, cluster_summary, without_object};
use super::history::Histories;
use super::inputs::Inputs;
use super::keys::{Key, MISSING_SERVER, NO_SERVER, Names, REST, is_conclusive, is_error};
use super::process::NO_CLUSTER;
use super::rates::Rates;
use super::served_objects::ServedObject;
use super::severity::days_left;
use super::transitions::Transitions;
use super::view::{
    CertificateView, ClusterView, GlobalLimitView, LimitAt, LimitView, PolicyView, ServerView, UnhealthyAt,
};
use crate::activity_report::{MAX_TALKERS, OTHER, talkers};
use crate::display_text::one_line;

/// The single counts of one cluster, over all gateways.
#[derive(Debug, Default)]
struct Details<'a> {
    activity: SummedActivity<'a>,
    /// Forwarded requests in a second, by policy.
    forwarded: BTreeMap<u16, f64>,
    /// Refusals in a second, by policy and reason.
    refused: BTreeMap<u16, BTreeMap<String, f64>>,
    servers: BTreeMap<String, Rates>,
    limited: BTreeMap<String, f64>,
    limits: BTreeMap<String, Vec<LimitAt>>,
    top: Option<TopTalkers>,
}

/// Everything about one cluster; `None` if there is none of that name.
pub(super) fn cluster_view(
    inputs: Inputs<'_>,
    name: &str,
    histories: &Histories,
    transitions: &Transitions,
) -> Option<ClusterView> {
    let object = inputs.status.objects.cluster(name);
    let details = Details::of(&inputs, name);
    let gateways = inputs.gateways();
    let summary = match object {
        Some(object) => cluster_summary(&inputs, name, object, &details.activity, &gateways),
        None if name == NO_CLUSTER => without_object(&details.activity.rates, gateways.len()),
        None => return None,
    };
    Some(ClusterView {
        time: inputs.now.seconds,
        summary,
        servers: details.servers(&inputs, name),
        policies: details.policies(&inputs, name),
        limits: details.limits(&inputs, name),
        certificates: certificates(&inputs, name),
        conditions: object.map(|object| object.status.conditions.clone()).unwrap_or_default(),
        transitions: transitions.of(name),
        history: histories.of(name, inputs.now),
        top: details.top,
        at_gateways: Vec::new(),
    })
}

impl<'a> Details<'a> {
    fn of(inputs: &Inputs<'a>, name: &str) -> Self {
        let mut details = Self::default();
        for (node, gateway, reported) in inputs.activity.reporting(inputs.now) {
            let Some(activity) = gateway.cluster(name) else { continue };
            details.activity.add(node, &activity.rates(reported));
            for (key, rate) in activity.each(reported) {
                details.add(key, rate, &activity.names, inputs);
            }
            for one in &activity.limits {
                let (schema, node) = (activity.names.schema_name(one.schema).to_owned(), node.to_owned());
                let at = LimitAt { node, used: one.used, limit: one.limit, rate: one.rate, local: one.local };
                details.limits.entry(schema).or_default().push(at);
            }
            for (server, requests) in &activity.in_flight {
                let rates = details.servers.entry(activity.names.server_name(*server).to_owned()).or_default();
                rates.running = rates.running.saturating_add(*requests);
            }
            if let Some(top) = activity.top.as_deref().and_then(talkers) {
                let sum = details.top.get_or_insert_default();
                add_talkers(&mut sum.users, top.users);
                add_talkers(&mut sum.groups, top.groups);
                add_talkers(&mut sum.user_agents, top.user_agents);
            }
        }
        if let Some(top) = &mut details.top {
            [&mut top.users, &mut top.groups, &mut top.user_agents].into_iter().for_each(rank);
        }
        details
    }

    fn add(&mut self, key: Key, rate: f64, names: &Names, inputs: &Inputs<'_>) {
        let server = |position| names.server_name(position).to_owned();
        match key {
            Key::Forwarded(policy) => *self.forwarded.entry(policy).or_default() += rate,
            Key::Refused(policy, reason) => {
                let reason = inputs.activity.reason_text(reason).to_owned();
                *self.refused.entry(policy).or_default().entry(reason).or_default() += rate;
            }
            Key::Answers(position, kind) => {
                let rates = self.servers.entry(server(position)).or_default();
                rates.answers += rate;
                rates.errors += if is_error(position, kind) { rate } else { 0.0 };
                rates.conclusive += if is_conclusive(position, kind) { rate } else { 0.0 };
            }
            Key::Latency(position, bucket) => {
                let rates = self.servers.entry(server(position)).or_default();
                rates.latency.get_mut(usize::from(bucket)).into_iter().for_each(|sum| *sum += rate);
            }
            Key::Limited(position) => *self.limited.entry(names.schema_name(position).to_owned()).or_default() += rate,
        }
    }

    /// The servers of the object in its order of addresses, then others that still answer.
    fn servers(&self, inputs: &Inputs<'_>, name: &str) -> Vec<ServerView> {
        let mut servers: BTreeMap<&str, ServerView> = BTreeMap::new();
        let listed = inputs.served(name).into_iter().flat_map(|served| &served.servers);
        for one in listed {
            let view = servers.entry(&one.server).or_default();
            view.zone.clone_from(&one.zone);
            view.weight = Some(one.weight);
        }
        for ((node, server), one) in inputs.unhealthy(name) {
            let since = one.since.seconds().unwrap_or_default();
            let at = UnhealthyAt { node: node.to_owned(), reason: one.reason.clone(), since };
            servers.entry(server).or_default().unhealthy.push(at);
        }
        let is_server = |server: &str| server != NO_SERVER && server != MISSING_SERVER;
        let upstream = self.servers.iter().filter(|(server, _)| is_server(server));
        let total: f64 = upstream.map(|(_, rates)| rates.answers).sum();
        for (server, rates) in self.servers.iter().filter(|(_, rates)| **rates != Rates::default()) {
            let view = servers.entry(server).or_default();
            view.numbers = rates.numbers();
            view.share = if total > 0.0 && is_server(server) { rates.answers / total } else { 0.0 };
        }
        servers.into_iter().map(|(server, view)| ServerView { server: server.to_owned(), ..view }).collect()
    }

    /// The policies of the object in its order, then requests that none decided, and the rest.
    fn policies(&self, inputs: &Inputs<'_>, name: &str) -> Vec<PolicyView> {
        let listed = (1..REST).zip(inputs.served(name).into_iter().flat_map(ServedObject::policies));
        let view = |rule: &str| PolicyView { rule: rule.to_owned(), ..PolicyView::default() };
        let mut views: BTreeMap<u16, PolicyView> = listed.map(|(policy, rule)| (policy, view(rule))).collect();
        for (policy, rate) in &self.forwarded {
            views.entry(*policy).or_default().forwarded_per_second = *rate;
        }
        for (policy, reasons) in &self.refused {
            let refused = &mut views.entry(*policy).or_default().refused_per_second;
            *refused =
                reasons.iter().filter(|(_, rate)| **rate > 0.0).map(|(one, rate)| (one.clone(), *rate)).collect();
            refused.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        }
        // 0 is behind all that have a number, and before the rest.
        let mut views: Vec<(u16, PolicyView)> = views.into_iter().collect();
        views.sort_by_key(|(policy, _)| if *policy == 0 { REST - 1 } else { *policy });
        let named = views.into_iter().map(|(policy, view)| PolicyView { policy: policy_name(policy), ..view });
        named.collect()
    }

    fn limits(&self, inputs: &Inputs<'_>, name: &str) -> Vec<LimitView> {
        let listed = inputs.served(name).map(|served| served.schemas.as_slice()).unwrap_or_default();
        let mut views: BTreeMap<&str, LimitView> =
            listed.iter().map(|schema| (schema.as_str(), LimitView::default())).collect();
        for (schema, global) in inputs.served(name).iter().flat_map(|served| &served.global_limits) {
            views.entry(schema).or_default().global = Some(GlobalLimitView::of(global));
        }
        for (schema, gateways) in &self.limits {
            views.entry(schema).or_default().by_gateway.clone_from(gateways);
        }
        for (schema, rate) in &self.limited {
            views.entry(schema).or_default().refused_per_second = *rate;
        }
        views.into_iter().map(|(schema, view)| LimitView { schema: schema.to_owned(), ..view }).collect()
    }
}

fn policy_name(policy: u16) -> String {
    match policy {
        0 => "-".to_owned(),
        REST => OTHER.to_owned(),
        number => (number - 1).to_string(),
    }
}

fn certificates(inputs: &Inputs<'_>, name: &str) -> Vec<CertificateView> {
    let all = inputs.served(name).into_iter().flat_map(|served| &served.certificates);
    let view = all.map(|one| CertificateView {
        usage: one.usage.to_owned(),
        subject: one_line(&one.subject),
        not_after: one.not_after,
        days_left: days_left(one.not_after, inputs.now),
    });
    view.collect()
}

/// Adds the clients of another gateway. An error of a sum is the sum of the errors.
fn add_talkers(sum: &mut Vec<Talker>, others: Vec<Talker>) {
    for other in others {
        match sum.iter_mut().find(|one| one.name == other.name) {
            None => sum.push(other),
            Some(one) => {
                one.requests = one.requests.saturating_add(other.requests);
                one.error = one.error.saturating_add(other.error);
                one.lists = one.lists.saturating_add(other.lists);
                one.bytes = one.bytes.saturating_add(other.bytes);
                one.refusals = one.refusals.saturating_add(other.refusals);
            }
        }
    }
}

/// Sorts clients by their requests, and counts those beyond the bound together, at the end.
fn rank(talkers: &mut Vec<Talker>) {
    talkers.sort_by(|a, b| {
        let is_rest = |one: &Talker| one.name == OTHER;
        is_rest(a).cmp(&is_rest(b)).then_with(|| b.requests.cmp(&a.requests)).then_with(|| a.name.cmp(&b.name))
    });
    let mut rest = talkers.split_off(talkers.len().min(MAX_TALKERS));
    rest.iter_mut().for_each(|one| OTHER.clone_into(&mut one.name));
    add_talkers(talkers, rest);
}

const _: () = assert!(BUCKETS <= 16, "a bucket fits its key");
