use super::{LinearMatcher, Policies, RequestInfo, UserInfo, UserMatchCache, config};

mod equals_model;
mod hostile;
mod large_trees;
mod leaf_borders;
mod table;
