use super::{LinearMatcher, Policies, RequestInfo, UserInfo, UserMatchCache, config};

mod bounds;
mod equals_model;
mod hostile;
mod large_trees;
mod leaf_borders;
mod table;
mod teams;
mod texts;
