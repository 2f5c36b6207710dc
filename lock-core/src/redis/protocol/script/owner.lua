-- The owner that one of our clients wrote, without the mark that others wait, and its session.
-- Values of other libraries may look alike, but for their length.
local function owner_of(value)
  local owner, session = string.match(value, '^(%x+[.:](%x+))%+?$')
  if owner and #owner == 49 then
    return owner, session
  end
end
