"""Operations between devices, made of one request, `exchange`; how devices meet is the hosts' part."""
