use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use portcullis_api::DiscoveredServer;
use portcullis_sources::Backoff;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::report::{Reporter, SourceReport};
use super::slices::SliceServers;

/// The pause between two questions is what the records say, within these bounds: records without a time to live are not asked for
/// without end, and a change is noticed within a minute whatever they say.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
/// The time for a question and all that follow from its answer: so long a name keeps its turn from others.
const ANSWER: Duration = Duration::from_secs(10);
/// The time for one question at one DNS server, which is asked twice.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Most targets whose addresses are asked for, and how many at a time.
const MAX_TARGETS: usize = 128;
const AT_A_TIME: usize = 8;
/// Names that are asked for at a time.
pub(super) const NAMES_AT_A_TIME: usize = 64;
/// Most addresses of one target that are taken.
const MAX_ADDRESSES: usize = 32;

/// The DNS servers that are asked.
#[derive(Clone, Debug)]
pub(in super::super) enum Nameservers {
    /// Those of `/etc/resolv.conf`, which is read anew for each question.
    System,
    Listed(Vec<SocketAddr>),
}

impl Nameservers {
    fn resolver(&self) -> Result<TokioResolver, NetError> {
        let mut builder = match self {
            Nameservers::System => TokioResolver::builder_tokio()?,
            Nameservers::Listed(servers) => {
                let server = |address: &SocketAddr| {
                    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
                    connections.iter_mut().for_each(|connection| connection.port = address.port());
                    NameServerConfig::new(address.ip(), true, connections)
                };
                let config = ResolverConfig::from_name_servers(servers.iter().map(server).collect());
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
        };
        let options: &mut ResolverOpts = builder.options_mut();
        options.use_hosts_file = ResolveHosts::Never;
        options.cache_size = 0;
        options.timeout = ATTEMPT;
        options.attempts = 2;
        builder.build()
    }
}

/// Follows the SRV records of a name until the task ends. All names share the `turns`: the DNS servers are others' too.
pub(super) async fn follow(nameservers: Nameservers, turns: Arc<Semaphore>, name: String, to: Reporter) {
    let mut backoff = Backoff::default();
    loop {
        // It is never closed.
        let turn = turns.acquire().await;
        let asked = timeout(ANSWER, ask(&nameservers, &name)).await;
        drop(turn);
        let pause = match asked {
            Ok(Ok((found, lifetime))) => {
                backoff.reset();
                to.report(SourceReport::Servers(found)).await;
                lifetime.clamp(PAUSES.0, PAUSES.1)
            }
            Ok(Err(why)) => {
                to.failed(why).await;
                backoff.pause()
            }
            Err(_) => {
                to.failed("asking for SRV records: no answer in time".to_owned()).await;
                backoff.pause()
            }
        };
        sleep(pause).await;
    }
}

/// The servers, and how long the records hold. An answer is whole or an error: a target whose addresses cannot be asked for at
/// present takes no server away.
async fn ask(nameservers: &Nameservers, name: &str) -> Result<(SliceServers, Duration), String> {
    let resolver = nameservers.resolver().map_err(|error| format!("reading the DNS servers: {error}"))?;
    let Some(lookup) = some(resolver.srv_lookup(absolute(name)?).await, "SRV records")? else {
        return Ok((SliceServers::default(), PAUSES.0));
    };
    let lifetime = lookup.answers().iter().map(|record| record.ttl).min().unwrap_or_default();
    let records = lookup.answers().iter().filter_map(|record| match &record.data {
        RData::SRV(record) => Some(record),
        _ => None,
    });
    let mut found = SliceServers::default();
    for targets in by_priority(records, &mut found.unused).into_values() {
        found.servers = addresses(&resolver, targets, &mut found.unused).await?;
        if !found.servers.is_empty() {
            break;
        }
    }
    Ok((found, Duration::from_secs(lifetime.into())))
}

/// The targets with their ports, by priority. The target `.` says that there is no such service.
fn by_priority<'a>(
    records: impl Iterator<Item = &'a SRV>,
    unused: &mut Vec<String>,
) -> BTreeMap<u16, Vec<(Name, u16)>> {
    let mut targets: Vec<_> = records
        .filter(|record| record.port != 0 && !record.target.is_root())
        .map(|record| (record.priority, record.target.to_lowercase(), record.port))
        .collect();
    targets.sort();
    targets.dedup();
    if targets.len() > MAX_TARGETS {
        unused.push(format!("{} targets of SRV records are more than {MAX_TARGETS}", targets.len()));
        targets.truncate(MAX_TARGETS);
    }
    let mut by_priority: BTreeMap<u16, Vec<(Name, u16)>> = BTreeMap::new();
    for (priority, target, port) in targets {
        by_priority.entry(priority).or_default().push((target, port));
    }
    by_priority
}

/// The addresses behind the targets, sorted, each once.
async fn addresses(
    resolver: &TokioResolver,
    targets: Vec<(Name, u16)>,
    unused: &mut Vec<String>,
) -> Result<Vec<DiscoveredServer>, String> {
    let questions = targets.into_iter().map(async |(target, port)| {
        let ips = addresses_of(resolver, &target).await?;
        Ok::<_, String>((target, port, ips))
    });
    let answers: Vec<_> = stream::iter(questions).buffered(AT_A_TIME).try_collect().await?;
    let mut servers = Vec::new();
    for (target, port, mut ips) in answers {
        // In one order whatever that of the answer is: else each answer would bring other ones.
        ips.sort();
        ips.dedup();
        let target = target.to_ascii();
        match ips.len() {
            0 => unused.push(format!("the target {target} of an SRV record has no address")),
            number if number > MAX_ADDRESSES => {
                unused.push(format!("{number} addresses of the target {target} are more than {MAX_ADDRESSES}"));
            }
            _ => {}
        }
        ips.truncate(MAX_ADDRESSES);
        servers.extend(ips.into_iter().map(|ip| DiscoveredServer { ip, port, zone: String::new() }));
    }
    unused.truncate(super::slices::MAX_FINDINGS);
    servers.sort();
    servers.dedup();
    Ok(servers)
}

/// The addresses of a target: those of IPv6 only where it has none of IPv4, because an address of each family is one server with
/// two addresses more often than two servers. A question that fails is an error, also if the other one is answered.
async fn addresses_of(resolver: &TokioResolver, target: &Name) -> Result<Vec<IpAddr>, String> {
    for family in [RecordType::A, RecordType::AAAA] {
        let Some(found) = some(resolver.lookup(target.clone(), family).await, "addresses")? else { continue };
        let address = |data: &RData| match data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        };
        let ips: Vec<IpAddr> = found.answers().iter().filter_map(|record| address(&record.data)).collect();
        if !ips.is_empty() {
            return Ok(ips);
        }
    }
    Ok(Vec::new())
}

/// `None` if DNS says that there are no such records. `what` is asked for. Nothing that a DNS server says is in an error.
fn some<T>(answer: Result<T, NetError>, what: &str) -> Result<Option<T>, String> {
    let why = match answer {
        Ok(found) => return Ok(Some(found)),
        Err(NetError::Dns(DnsError::NoRecordsFound(_))) => return Ok(None),
        Err(NetError::Dns(DnsError::ResponseCode(code))) => code.to_str(),
        Err(NetError::Timeout) => "no answer in time",
        Err(NetError::NoConnections | NetError::Io(_)) => "no DNS server can be reached",
        Err(_) => "the answer cannot be used",
    };
    Err(format!("asking for {what}: {why}"))
}

/// The name with a dot at its end: no search list of the machine is tried.
fn absolute(name: &str) -> Result<Name, String> {
    Name::from_ascii(format!("{name}.")).map_err(|error| format!("reading the name of SRV records: {error}"))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use hickory_resolver::proto::op::{Message, ResponseCode};
    use hickory_resolver::proto::rr::Record;
    use tokio::net::UdpSocket;

    use super::*;

    fn of(records: &[(u16, u16, &str)]) -> (Vec<(u16, Vec<String>)>, Vec<String>) {
        let name = |target: &str| Name::from_ascii(target).unwrap();
        let records: Vec<_> =
            records.iter().map(|(priority, port, target)| SRV::new(*priority, 0, *port, name(target))).collect();
        let mut unused = Vec::new();
        let shown = |(priority, targets): (u16, Vec<(Name, u16)>)| {
            (priority, targets.iter().map(|(target, port)| format!("{target}:{port}")).collect())
        };
        (by_priority(records.iter(), &mut unused).into_iter().map(shown).collect(), unused)
    }

    #[test]
    fn targets_are_ordered_by_priority_and_counted_once() {
        let records = [
            (10, 1, "b.test."),
            (0, 2, "c.test."),
            (0, 2, "C.test."),
            (0, 3, "a.test."),
            (0, 0, "d.test."),
            (0, 1, "."),
        ];
        let wanted = [(0, vec!["a.test.:3", "c.test.:2"]), (10, vec!["b.test.:1"])]
            .map(|(priority, targets)| (priority, targets.into_iter().map(str::to_owned).collect()));
        assert_eq!(of(&records), (wanted.to_vec(), vec![]));
        assert_eq!(of(&[(0, 443, ".")]), (vec![], vec![]), "no such service");
    }

    #[test]
    fn targets_are_bounded() {
        let names: Vec<String> = (0..1_000).map(|number| format!("s{number}.test.")).collect();
        let records: Vec<_> = names.iter().map(|name| (0, 1, name.as_str())).collect();
        let (targets, unused) = of(&records);
        assert_eq!(targets[0].1.len(), MAX_TARGETS);
        assert!(unused[0].contains("1000 targets"), "{unused:?}");
    }

    /// A DNS server that answers questions for addresses of each family in its way.
    async fn server(answers: impl Fn(RecordType) -> (ResponseCode, Vec<RData>) + Send + 'static) -> Nameservers {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let mut message = Message::from_vec(&buffer[..length]).unwrap().into_response();
                let query = message.queries[0].clone();
                let (code, found) = answers(query.query_type());
                message.metadata.response_code = code;
                message.add_answers(found.into_iter().map(|data| Record::from_rdata(query.name().clone(), 1, data)));
                let _ = socket.send_to(&message.to_vec().unwrap(), from).await;
            }
        });
        Nameservers::Listed(vec![address])
    }

    fn v4(last: u8) -> RData {
        RData::A(std::net::Ipv4Addr::new(10, 0, 0, last).into())
    }

    async fn found(
        a: (ResponseCode, Vec<RData>),
        aaaa: (ResponseCode, Vec<RData>),
    ) -> Result<(Vec<String>, Vec<String>), String> {
        let of = move |family| if family == RecordType::A { a.clone() } else { aaaa.clone() };
        let resolver = server(of).await.resolver().unwrap();
        let mut unused = Vec::new();
        let targets = vec![(Name::from_ascii("a.test.").unwrap(), 1)];
        let servers = addresses(&resolver, targets, &mut unused).await?;
        Ok((servers.iter().map(|server| server.ip.to_string()).collect(), unused))
    }

    #[tokio::test]
    async fn failed_question_is_no_target_without_addresses() {
        use ResponseCode::{NXDomain, NoError, ServFail};
        let v6 = || vec![RData::AAAA("2001:db8::1".parse::<Ipv6Addr>().unwrap().into())];
        let one = |ip: &str| Ok((vec![ip.to_owned()], vec![]));
        assert_eq!(found((NoError, vec![v4(1)]), (NoError, v6())).await, one("10.0.0.1"), "IPv4 first");
        assert_eq!(found((NoError, vec![]), (NoError, v6())).await, one("2001:db8::1"));
        let failed = found((ServFail, vec![]), (NoError, v6())).await.unwrap_err();
        assert!(failed.starts_with("asking for addresses: "), "{failed}");
        assert!(found((NoError, vec![]), (ServFail, vec![])).await.is_err());
        let none = found((NXDomain, vec![]), (NXDomain, vec![])).await.unwrap();
        assert_eq!((none.0.len(), none.1.len()), (0, 1), "{none:?}");
    }

    #[tokio::test]
    async fn same_addresses_are_taken_whatever_their_order_is() {
        let (up, down): (Vec<_>, Vec<_>) = ((0..60).map(v4).collect(), (0..60).rev().map(v4).collect());
        let nothing = || (ResponseCode::NoError, Vec::new());
        let first = found((ResponseCode::NoError, up), nothing()).await.unwrap();
        assert_eq!((first.0.len(), first.1.len()), (MAX_ADDRESSES, 1));
        assert_eq!(found((ResponseCode::NoError, down), nothing()).await.unwrap(), first);
    }
}
