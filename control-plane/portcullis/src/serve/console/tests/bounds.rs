//! One reader's requests, sessions and streams leave room for others.

use std::task::Poll;

use futures_util::future::join_all;
use futures_util::poll;
use tokio::sync::watch;

use super::views::data;
use super::*;

const CLUSTERS: [&str; 3] = ["alice.test", "bob.test", "-"];

/// Counts the reviews of each right, and answers none of `slow` before it is opened. Tokens are `NAME-token`, and `NAME-token2`.
struct SlowApi {
    asked: Mutex<BTreeMap<(String, String), usize>>,
    is_open: watch::Sender<bool>,
}

impl SlowApi {
    fn asked(&self) -> BTreeMap<(String, String), usize> {
        self.asked.lock().unwrap().clone()
    }
}

impl Reviewer for SlowApi {
    fn user<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, ReviewFailed>> {
        let name = token.split_once('-').map(|(name, _)| name.to_owned());
        Box::pin(async { Ok(name.map(|name| UserInfo { name, ..UserInfo::default() })) })
    }

    fn allows<'a>(&'a self, user: &'a UserInfo, right: Right<'a>) -> BoxFuture<'a, Result<bool, ReviewFailed>> {
        *self.asked.lock().unwrap().entry((user.name.clone(), format!("{right:?}"))).or_default() += 1;
        let mut is_open = self.is_open.subscribe();
        Box::pin(async move {
            if user.name == "slow" {
                is_open.wait_for(|is_open| *is_open).await.map_err(|_| ReviewFailed)?;
            }
            Ok(right != Right::List)
        })
    }
}

/// A reader whose rights take long to review.
#[tokio::test]
async fn slow_reviews_of_a_reader_are_shared_and_delay_no_other() {
    let api = Arc::new(SlowApi { asked: Mutex::default(), is_open: watch::Sender::new(false) });
    let site = Site::new(data(&CLUSTERS, "words"), LoginPolicy::Reviewed(Arc::clone(&api) as Arc<dyn Reviewer>));
    let ask = async |token: &str| {
        let header = format!("Bearer {token}");
        site.get(NEAR, "/ui/api/fleet", &[("authorization", &header)]).await.status.as_u16()
    };
    let flood = join_all((0..16).map(|number| ask(if number % 2 == 0 { "slow-token" } else { "slow-token2" })));
    let other = async {
        let answer = ask("fast-token").await;
        let of_flood = api.asked();
        api.is_open.send_replace(true);
        (answer, of_flood)
    };
    let (flood, (other, meanwhile)) = tokio::join!(flood, other);
    println!("{:?} {other} {meanwhile:?} {:?}", flood, api.asked());
    assert_eq!(other, 200, "another reader is answered meanwhile");
    assert!(meanwhile.contains_key(&("slow".to_owned(), "List".to_owned())), "{meanwhile:?}");
    assert!(flood.iter().all(|status| *status == 200), "{flood:?}");
    assert!(api.asked().values().all(|times| *times == 1), "{:?}", api.asked());
    assert_eq!(api.asked().len(), 2 * 3, "list and two objects, of two readers");
}

#[tokio::test]
async fn readers_without_rights_keep_nobody_out() {
    let api = Arc::<FakeApi>::default();
    let policy = LoginPolicy::Reviewed(Arc::clone(&api) as Arc<dyn Reviewer>);
    let site = Site::with(data(&CLUSTERS, "words"), policy, true);
    let log_in = async |number: usize, user: &str| {
        let from = format!("10.0.{}.{}:1", number / 200, number % 200);
        site.post(&from, "/ui/login", &[], &format!("token={user}-token")).await.status.as_u16()
    };
    let mut statuses = Vec::new();
    for number in 0..8 * 40 {
        statuses.push(log_in(number, &format!("user{}", number / 8)).await);
    }
    assert_eq!(log_in(400, "root").await, 303);
    assert_eq!(log_in(401, "alice").await, 303, "one object is enough");
    assert!(statuses.iter().all(|status| *status == 403), "{statuses:?}");
    let reviews = api.access_reviews.load(Ordering::Relaxed);
    assert!(reviews <= 40 * 3 + 1 + 3, "{reviews} reviews");
}

/// Clients behind one proxy, which appends their addresses.
#[tokio::test]
async fn clients_behind_a_proxy_have_attempts_of_their_own() {
    let api = Arc::<FakeApi>::default();
    let policy = LoginPolicy::Reviewed(Arc::clone(&api) as Arc<dyn Reviewer>);
    let site = Site::with(data(&CLUSTERS, "words"), policy, true);
    let log_in = async |client: &str, token: &str| {
        let headers = [("x-forwarded-for", client)];
        site.post(FAR, "/ui/login", &headers, &format!("token={token}")).await.status.as_u16()
    };
    for number in 0..100 {
        let forged = format!("198.51.100.{number}, 203.0.113.9");
        log_in(&forged, &format!("junk-{number}")).await;
    }
    assert!(api.token_reviews.load(Ordering::Relaxed) < 15, "what a client claims does not count");
    assert_eq!(log_in("203.0.113.9", "root-token").await, 429);
    assert_eq!(log_in("203.0.113.10", "root-token").await, 303);
    // All clients together.
    for number in 0..500 {
        log_in(&format!("10.0.{}.{}", number / 200, number % 200), &format!("more-{number}")).await;
    }
    let reviews = api.token_reviews.load(Ordering::Relaxed);
    assert!(reviews < 150, "{reviews}");
}

#[tokio::test]
async fn streams_of_one_reader_are_bounded() {
    let site = Site::new(data(&CLUSTERS, "words"), LoginPolicy::Reviewed(Arc::<FakeApi>::default()));
    let open = async |token: &str| {
        let header = format!("Bearer {token}");
        site.get(NEAR, "/ui/api/events", &[("authorization", &header)]).await.status
    };
    let mut held: Vec<_> = (0..4).map(|_| Box::pin(open("alice-token"))).collect();
    for stream in &mut held {
        assert!(poll!(stream).is_pending());
    }
    assert_eq!(poll!(Box::pin(open("alice-token"))), Poll::Ready(StatusCode::SERVICE_UNAVAILABLE));
    assert!(poll!(Box::pin(open("bob-token"))).is_pending(), "another reader's");
    held.pop();
    assert!(poll!(Box::pin(open("alice-token"))).is_pending(), "its end makes room");
}

/// A reader without any right asks for ever new names of great length.
#[tokio::test]
async fn names_that_no_object_has_are_not_reviewed() {
    let api = Arc::<FakeApi>::default();
    let site = Site::new(data(&CLUSTERS, "words"), LoginPolicy::Reviewed(Arc::clone(&api) as Arc<dyn Reviewer>));
    let header = [("authorization", "Bearer alice-token")];
    let ask = async |name: String| site.get(NEAR, &format!("/ui/api/clusters/{name}"), &header).await.status;
    assert_eq!(ask("alice.test".to_owned()).await, StatusCode::OK);
    let before = api.access_reviews.load(Ordering::Relaxed);
    for number in 0..3_000 {
        assert_eq!(ask(format!("alice{number:0>4000}")).await, StatusCode::FORBIDDEN);
    }
    assert_eq!(api.access_reviews.load(Ordering::Relaxed), before);
    // As long as a name may be.
    assert_eq!(ask(format!("bob{:0>250}", 1)).await, StatusCode::FORBIDDEN);
    assert_eq!(api.access_reviews.load(Ordering::Relaxed), before + 1);
}

/// Wrong tokens cost no look at the objects.
#[tokio::test]
async fn strangers_logins_make_no_view() {
    let (data, views) = (data(&CLUSTERS, "words"), Arc::<AtomicUsize>::default());
    let data = FixedData { views: Arc::clone(&views), ..data };
    let site = Site::new(data, LoginPolicy::Reviewed(Arc::<FakeApi>::default()));
    for number in 0..3 {
        let answer = site.post(NEAR, "/ui/login", &[], &format!("token=wrong{number}")).await;
        assert_ne!(answer.status, StatusCode::SEE_OTHER);
    }
    assert_eq!(views.load(Ordering::Relaxed), 0);
    assert_eq!(site.post(NEAR, "/ui/login", &[], "token=alice-token").await.status, StatusCode::SEE_OTHER);
    assert_ne!(views.load(Ordering::Relaxed), 0);
}
